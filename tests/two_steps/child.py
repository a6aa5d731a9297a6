"""Run one script with stand-ins: ``python -m tests.two_steps.child JOB.json``.

The last line printed is JSON: losses of the steps, or where and why the script ended.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.chdir(job["folder"])
    script = job["script"]
    sys.argv = [script, *job["arguments"]]
    sys.path[:0] = [str(Path(script).resolve().parent), os.getcwd()]
    warnings.simplefilter("ignore")

    from tests.two_steps import stand_ins

    result: dict[str, object] = {"ok": True}
    try:
        stand_ins.install(job["data"], job["checkout"], job["environment"])
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            result = {"ok": False, "error": f"SystemExit: {end.code}"}
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(script)
        ]
        line = own[-1].lineno if own else None
        result = {
            "ok": False,
            "error": f"{type(error).__name__}: {str(error)[:600]}",
            "line": line,
            "source": own[-1].line if own else "",
            "deepest": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
        }
    result["losses"] = stand_ins.losses
    sys.stdout.write("\n@@@" + json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
