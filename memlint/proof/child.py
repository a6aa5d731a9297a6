"""One of the runs that are compared: ``python -m memlint.proof.child JOB``, a process of its own.

JOB is a file of JSON that ``memlint.proof.comparing`` writes; what became of the run is written to
the file that it names.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from memlint.proof import stand_ins
from memlint.proof.overlay import Overlay
from memlint.proof.watching import Enough, Watch


def main(path: str) -> None:
    """Run the job of the file at ``path``, and write how it ended."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    result = Path(job["result"])
    watch = Watch(job["steps"], job["nudge"])
    ended: dict[str, Any] = {"error": ""}
    try:
        _run(job, watch)
    except Enough:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            ended["error"] = f"SystemExit: {end.code}"
    except BaseException as error:
        ended["error"] = _told(error)
    try:
        ended |= watch.seen()
    except ImportError as error:
        ended["error"] = ended["error"] or f"torch cannot be imported: {error}"
    part = result.with_suffix(".part")
    part.write_text(json.dumps(ended), encoding="utf-8")
    part.replace(result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and workers of a run that was ended halfway wait for nothing


def _run(job: dict[str, Any], watch: Watch) -> None:
    script = job["script"]
    overlay = Overlay(job["folder"], job["copy"])
    os.chdir(overlay.of(job["working_folder"]))
    seen = overlay.of(script)
    sys.argv = [seen, *job["arguments"]]
    sys.path[0] = os.path.dirname(seen)
    os.environ |= stand_ins.QUIET
    overlay.guard()
    if job["tiny"] is not None:
        stand_ins.install(overlay.copy, job["tiny"])
    else:
        _keep_from_hub()
    import numpy
    import torch

    random.seed(job["seed"])
    numpy.random.seed(job["seed"])
    torch.manual_seed(job["seed"])
    watch.begin()
    overlay.guard_writers()
    main_module = ModuleType("__main__")
    vars(main_module).update(__file__=seen, __builtins__=__builtins__)
    sys.modules["__main__"] = main_module
    exec(compile(job["text"], seen, "exec"), vars(main_module))


def _keep_from_hub() -> None:
    """Models and data may be loaded from the hub; nothing is written to it."""
    try:
        import huggingface_hub
    except ImportError:
        return
    for name in ("create_repo", "upload_file", "upload_folder", "create_commit"):
        setattr(huggingface_hub.HfApi, name, lambda *a, **k: None)
        setattr(huggingface_hub, name, lambda *a, **k: None)


def _told(error: BaseException) -> str:
    """Return an error in a line, with the line of the script that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == sys.argv[0]]
    where = f" (line {own[-1].lineno})" if own else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text[:400]}{where}"


if __name__ == "__main__":
    main(sys.argv[1])
