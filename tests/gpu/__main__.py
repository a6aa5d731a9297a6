"""`python -m tests.gpu`: everything that only a GPU can show, as JSON and as a table.

What is cut short goes on where it was: steps that ended well in the same environment (device,
versions, commit) are not run again, unless `--again` wants it. Steps that show correctness run
beside each other, those that measure time alone.

Exit status: 0 all steps ran or could not be measured for want of a peer, 1 a step failed, 2 wrong
arguments, 3 no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu import harness

NO_GPU = 3
_AT_ONCE = max(1, min(6, (os.cpu_count() or 1) // 2))


def main(arguments: list[str] | None = None) -> int:
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[],
        help="steps whose name contains NAME; several are run in the order given",
    )  # fmt: skip
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=_AT_ONCE, help=f"correctness ({_AT_ONCE})"
    )
    parser.add_argument(
        "--within", metavar="SECONDS", type=float, default=math.inf, help="begin no step later"
    )
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
    all_steps = harness.load_steps(harness.step_modules())
    wanted = [[pair for pair in all_steps if name in pair[1].name] for name in options.only or [""]]
    for name, found in zip(options.only, wanted, strict=False):
        if not found:
            print(f"no step's name contains {name!r}; --list names them", file=sys.stderr)
            return 2
    steps = list(dict.fromkeys(pair for found in wanted for pair in found))
    if options.list:
        for module, step in steps:
            print(f"{step.name}  (at most {step.minutes:g} min, {module})")
        return 0
    environment = harness.environment()
    if environment["device"] is None:
        print("no CUDA GPU here: nothing was measured (--list names the steps)", file=sys.stderr)
        return NO_GPU
    options.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps(environment), flush=True)
    records: list[harness.Result] = []
    writing = threading.Lock()

    def run(pair: tuple[str, harness.Step]) -> None:
        module, step = pair
        if options.again:
            (options.out / f"{step.name}.json").unlink(missing_ok=True)
        record = harness.run_step(
            module, step, options.out, environment,
            lambda: options.within - (time.monotonic() - began),
        )  # fmt: skip
        with writing:
            records.append(record)
            print(harness.summarize(record), flush=True)
            # Written after each step: whatever cuts the run short, what was measured stays.
            results = {"environment": environment, "steps": records}
            (options.out / "results.json").write_text(json.dumps(results, indent=1))
            (options.out / "table.txt").write_text(harness.table(records) + "\n")

    beside = [pair for pair in steps if harness.is_correctness(pair[0])]
    with ThreadPoolExecutor(max(options.at_once, 1)) as pool:
        # The longest first, so that none is waited for alone.
        list(pool.map(run, sorted(beside, key=lambda pair: -pair[1].minutes)))
    for pair in steps:
        if not harness.is_correctness(pair[0]):
            run(pair)
    print(harness.table(records), flush=True)
    return 1 if any(record["status"] == "failed" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
