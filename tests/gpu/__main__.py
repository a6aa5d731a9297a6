"""`python -m tests.gpu`: everything that only a GPU can show, as JSON and as a table.

What is cut short goes on where it was: steps that ended well in the same environment (device,
versions, commit) are not run again, unless `--again` wants it.

Exit status: 0 all steps ran or could not be measured for want of a peer, 1 a step failed, 2 wrong
arguments, 3 no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.gpu import harness

NO_GPU = 3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="steps whose name contains NAME")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("gpu-results"))
    parser.add_argument("--again", action="store_true", help="run steps that ended well, too")
    parser.add_argument("--list", action="store_true", help="list the steps and leave")
    parser.add_argument(
        "--child", nargs=3, metavar=("MODULE", "STEP", "FILE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    if options.child:
        module, name, path = options.child
        return harness.run_child(module, name, Path(path))
    steps = [
        (module, step)
        for module, step in harness.load_steps(harness.step_modules())
        if options.only is None or options.only in step.name
    ]
    if options.only is not None and not steps:
        print(f"no step's name contains {options.only!r}; --list names them", file=sys.stderr)
        return 2
    if options.list:
        for module, step in steps:
            print(f"{step.name}  (at most {step.minutes:g} min, {module})")
        return 0
    import torch

    if not torch.cuda.is_available():
        print("no CUDA GPU here: nothing was measured (--list names the steps)", file=sys.stderr)
        return NO_GPU
    options.out.mkdir(parents=True, exist_ok=True)
    environment = harness.environment()
    print(json.dumps(environment), flush=True)
    records = []
    for module, step in steps:
        if options.again:
            (options.out / f"{step.name}.json").unlink(missing_ok=True)
        record = harness.run_step(module, step, options.out, environment)
        records.append(record)
        print(harness.summarize(record), flush=True)
        # Written after each step: whatever cuts the run short, what was measured stays.
        results = {"environment": environment, "steps": records}
        (options.out / "results.json").write_text(json.dumps(results, indent=1))
        (options.out / "table.txt").write_text(harness.table(records) + "\n")
    print(harness.table(records), flush=True)
    return 1 if any(record["status"] == "failed" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
