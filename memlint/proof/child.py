"""One of the runs that are compared: ``python -m memlint.proof.child JOB``, a process of its own.

JOB is a file of JSON that ``memlint.proof.comparing`` writes; what became of the run is written to
the file that it names.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from memlint.proof import stand_ins
from memlint.proof.overlay import Overlay, remove_made
from memlint.proof.stand_ins.cpu_only import keep_from_hub
from memlint.proof.stand_ins.missing_packages import Anything
from memlint.proof.stand_ins.sample_rows import TABLES
from memlint.proof.watching import Watch

_STUCK = 600.0  # seconds in which no thread of Python's could run
_RANK = int(os.environ.get("RANK", 0))


def carry_out(path: str, run: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Run the job of the file at ``path``, and write how it ended.

    run: takes the job and what is told of it, which it fills, however it ends.
    """
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    Path(job["result"]).with_name(f"pid-{os.getpid()}").touch()
    threading.Thread(target=_end_with, args=(job,), daemon=True).start()
    told: dict[str, Any] = {"error": ""}
    try:
        run(job, told)
    except SystemExit as asked:
        if asked.code not in (None, 0):
            told["error"] = _said(asked, job["copy"])
    except BaseException as error:
        traceback.print_exception(error)
        told["error"] = _said(error, job["copy"])
    end(job, told)


def _end_with(job: dict[str, Any]) -> None:
    """End this run once the process that started it is gone: it may be killed."""
    with contextlib.suppress(OSError):
        while True:
            os.getpgid(job["owner"])
            faulthandler.dump_traceback_later(_STUCK, exit=True)
            time.sleep(0.5)
    remove_made(os.path.dirname(job["result"]))
    os.killpg(0, signal.SIGKILL)


def end(job: dict[str, Any], told: dict[str, Any]) -> NoReturn:
    """Write what is told of a run and end this process, which nothing that it started outlives."""
    result = Path(f"{job['result']}-{_RANK:04}.json")
    part = result.with_suffix(".part")
    part.write_text(json.dumps({**told, "ended": time.time()}), encoding="utf-8")
    part.replace(result)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads and workers of a run that was ended halfway wait for nothing; a launcher ends all of
    # its processes where one fails.
    os._exit(bool(told["error"]) and "RANK" in os.environ)


def begin(job: dict[str, Any]) -> Overlay:
    """Go into a copy of the project's folder, as the script would be started there."""
    # The script's own text, too: its workers, and whoever asks for its source, read it there.
    files = {**job.get("files", {}), job["script"]: job["text"]}
    overlay = Overlay(job["folder"], job["copy"], files, lays=_RANK == 0)
    os.chdir(overlay.of(job["working_folder"]))
    seen = overlay.of(job["script"])
    # What a launcher adds (DeepSpeed's ``--local_rank``) stands before the job.
    sys.argv = [seen, *sys.argv[1:-1], *map(overlay.of, job["arguments"])]
    sys.path[0] = os.getcwd() if job.get("module") else os.path.dirname(seen)
    os.environ |= stand_ins.QUIET
    overlay.guard()
    return overlay


def seed(number: int) -> None:
    import numpy
    import torch

    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def execute(text: str, module: str = "") -> None:
    """Run the script's text as the main program. module: its name, where it is started by it."""
    main_module = ModuleType("__main__")
    package = module.rpartition(".")[0] or None
    if not module and "\nfrom ." in text:  # which only a module of a package can say
        package = os.path.relpath(os.path.dirname(sys.argv[0])).replace(os.sep, ".")
        sys.path.append(os.getcwd())
    vars(main_module).update(__file__=sys.argv[0], __builtins__=__builtins__, __package__=package)
    sys.modules["__main__"] = main_module
    # Not with the features that this module takes from the future.
    exec(compile(text, sys.argv[0], "exec", dont_inherit=True), vars(main_module))


def _compared(job: dict[str, Any], told: dict[str, Any]) -> None:
    def seen() -> dict[str, Any]:
        return {**watch.seen(), "processes": int(os.environ.get("WORLD_SIZE", 1))}

    lacked: set[str] = set()
    # No script catches the end: it would go on to evaluate, save and upload.
    watch = Watch(job["steps"], job["nudge"], lambda: end(job, told | seen()))
    try:
        overlay = begin(job)
        if job["tiny"] is not None:
            has_template = "setup_chat_format" not in job["text"]  # which refuses a second one
            stand_ins.install(overlay.copy, job["tiny"], chat_template=has_template)
            _watch_files(overlay.copy, lacked)
        else:
            keep_from_hub()
        seed(job["seed"])
        watch.begin()
        overlay.guard_writers()
        execute(job["text"], job["module"])
    finally:
        told |= seen() | {"lacked": sorted(lacked)}


def _watch_files(folder: str, lacked: set[str]) -> None:
    """Add to ``lacked`` the files of data that code of the project looks for in vain."""
    real_stat = os.stat

    def stat(path: Any, *arguments: Any, **keywords: Any) -> Any:
        try:
            return real_stat(path, *arguments, **keywords)
        except FileNotFoundError:
            caller: Any = sys._getframe(1)
            while re.search(r"pathlib|genericpath", os.path.basename(caller.f_code.co_filename)):
                caller = caller.f_back
            by_project = caller.f_code.co_filename.startswith(folder)
            if by_project and Path(path).suffix in TABLES["writers"]:
                is_inside = os.path.abspath(path).startswith(folder)
                lacked.add(os.path.relpath(path) if is_inside else str(path))
            raise

    os.stat = stat


def _said(error: BaseException, folder: str) -> str:
    """Return an error in a line, with the line of the project that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.startswith(os.path.join(folder, ""))]
    where = ""
    if inside:
        name = os.path.relpath(inside[-1].filename, folder)
        beside = "" if [inside[-1].filename] == sys.argv[:1] else f"{name}, "
        where = f" ({beside}line {inside[-1].lineno})"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = f"{text.replace(os.path.join(folder, ''), '')[:400]}{where}"
    advice = [each for pattern, each in TABLES["advice"] if re.search(pattern, text)]
    said = [text, *advice[:1]]
    mocks = [name for name, one in sys.modules.items() if type(one) is Anything and "." not in name]
    return "; ".join(said + ["not installed, so mocks here: " + ", ".join(mocks)] * bool(mocks))


if __name__ == "__main__":
    carry_out(sys.argv[-1], _compared)
