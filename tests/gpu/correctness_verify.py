"""`memlint verify` on a real GPU: ten scripts and what it fixes in them, predicted and measured.

Several run at once: each peak is that of a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.gpu.harness import MissedError, Result, Step, require
from tests.gpu.verified_scripts import SCRIPTS, Script, Size

AT_ONCE = 4
_ROOT = Path(__file__).resolve().parents[2]
_GIB = 2**30


def verify_all(
    names: Sequence[str],
    size: Size | None = None,
    at_once: int = AT_ONCE,
    seconds: float = math.inf,
) -> Result:
    """Verify each script with its safe fixes, and those that name them with unsafe ones.

    seconds: after which no run is begun; what moves most memory comes first.
    Raises MissedError where a safe fix stops a script or moves what it learns; what a fix saves
    is recorded beside what was predicted.
    """
    require("accelerate", "datasets", "libcst", "peft", "trl")
    began = time.monotonic()
    runs = [(name, True) for name in names if SCRIPTS[name].unsafe]
    runs += [(name, False) for name in sorted(names, key=lambda name: bool(SCRIPTS[name].unsafe))]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:

        def carry_out(run: tuple[str, bool]) -> Result:
            name, unsafe = run
            if time.monotonic() - began > seconds:
                return {"exit": 0, "said": "not begun"}
            return _verified(SCRIPTS[name], size, Path(folder, f"{name}{unsafe:d}"), unsafe)

        found = list(pool.map(carry_out, runs))
    results = {
        f"{name}{' unsafe' * unsafe}": one for (name, unsafe), one in zip(runs, found, strict=True)
    }
    wrong = {
        name: one
        for (name, one), (_, unsafe) in zip(results.items(), runs, strict=True)
        if not unsafe and one.get("exit") not in (0, 2)
    }
    if wrong:
        ratios = {name: one.get("ratio") for name, one in results.items()}
        said = f"safe fixes stop or move: {json.dumps(wrong)}; {json.dumps(ratios)}"
        raise MissedError(said, dict(results))
    return dict(results)


def _verified(script: Script, size: Size | None, folder: Path, unsafe: bool) -> Result:
    folder.mkdir()
    (folder / "train.py").write_text(script.at(size or script.size))
    options = ["--unsafe-fixes"] * unsafe
    options += [word for code in script.unsafe for word in ("--fix", code) if unsafe]
    command = [sys.executable, "-m", "memlint", "verify", "--output-format", "json"]
    paths = (_ROOT, _ROOT / "rules", _ROOT / "runtime", os.environ.get("PYTHONPATH", ""))
    threads = max((os.cpu_count() or 1) // AT_ONCE, 1)
    begin = time.monotonic()
    done = subprocess.run(
        [*command, *options, "--timeout", "150", "train.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(threads),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = round(time.monotonic() - begin, 1)
    said = figures(json.loads(done.stdout)) if done.stdout else {"said": done.stderr[-400:]}
    return {"exit": done.returncode, "seconds": seconds, **said}


def figures(facts: dict[str, Any]) -> Result:
    """Return what is recorded of the facts that `verify` writes. Sizes in GiB."""
    before, after, predicted = facts["before"], facts["after"], facts["predicted"]
    found: Result = {
        "verdict": facts["verdict"],
        "moved": facts["moved"],
        "noise": facts["noise"],
        "savings": {each["code"]: _middle(each["saving"]) for each in facts["fixes"]},
    }
    if before["error"] or after["error"]:
        one = before if before["error"] else after
        found |= {"error": one["error"], "log": one["log"][-600:]}
    if predicted is not None:
        found |= {"predicted": [_gib(size) for size in predicted]}
    for name in ("allocated", "reserved"):
        if None not in (before[name], after[name]):
            found |= {name: [_gib(before[name]), _gib(after[name])]}
    if predicted is not None and None not in (before["allocated"], after["allocated"]):
        drop = before["allocated"] - after["allocated"]
        expected = predicted[0] - predicted[1]
        found |= {"drop": _gib(drop), "drop_predicted": _gib(expected)}
        found |= {"ratio": round(expected / drop, 3) if drop else None}
    return found


def _middle(saving: dict[str, Any] | None) -> float | None:
    return None if saving is None else _gib((saving["low"] + saving["high"]) / 2)


def _gib(size: float) -> float:
    return round(size / _GIB, 3)


STEPS = (Step("verify_ten_scripts", lambda: verify_all(tuple(SCRIPTS), seconds=150), 5),)
