"""TRL's own tests of its trainers, with TRL's trainers and with ours, side by side.

    python -m tests.trl_own_tests CHECKOUT [FILE ...] [--results FOLDER] [-- PYTEST OPTION ...]

CHECKOUT is a checkout of huggingface/trl; its tests run against the installed trl. Without FILEs
(`grpo`, `rloo`, `dpo`, `sft`) all four. The table has for each file: passed by both, failed by
both, skipped, refused by ours with its documented reason (passed where it then did as TRL does, or
said that some prompts are repeated), and failed with ours alone, each of the last listed; the exit
status is 1 if there is any. Outcomes are kept in the results folder, so that files can be run one
by one, and piece by piece (`--minutes`): the table is of all that lie there.

With `--cut`, GRPO and RLOO train a row a micro-batch with either, so that prompts are kept over
micro-batches with ours: give it a results folder of its own.

Models and data are made locally, see `stand_ins`; tests of vLLM and accelerators are skipped, and
those of vision models where there is no torchvision. Ours: `memlint_runtime.trl` for GRPO, RLOO and
DPO; for SFT, TRL's trainer after `fuse(trainer)`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = ("grpo", "rloo", "dpo", "sft")
VARIANTS = ("theirs", "ours")
# How our trainers begin a refusal; the reason follows.
REFUSAL = ("cannot share prompts", "chunks its log-probabilities", "wants a trainer of trl")
# A worse outcome counts: a test may pass its call and fail in its teardown.
_ORDER = ("passed", "skipped", "failed")


def run(
    given: argparse.Namespace, stand_ins: Path, name: str, variant: str, extra: list[str]
) -> None:
    """One file of tests in a copy, so that the checkout's own trl is not imported."""
    outcomes = given.results / f"{name}.{variant}.jsonl"
    if given.again:
        outcomes.unlink(missing_ok=True)
    checkout = given.checkout
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(checkout / "tests", Path(folder) / "tests")
        shutil.copy(checkout / "pyproject.toml", folder)
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:warnings",
            "-p", "memlint_trl_plugin", "-m", "not slow", f"tests/test_{name}_trainer.py", *extra,
        ]  # fmt: skip
        settings = environment(stand_ins) | {
            "MEMLINT_CHECKOUT": str(checkout.resolve()),
            "MEMLINT_STAND_INS": str(stand_ins.resolve()),
            "MEMLINT_OUTCOMES": str(outcomes.resolve()),
            "MEMLINT_TRAINERS": variant,
            "MEMLINT_STEPS": str(given.steps),
            "MEMLINT_CUT": str(int(given.cut)),
            "MEMLINT_MINUTES": str(given.minutes or ""),
        }
        subprocess.run(command, cwd=folder, env=settings, check=False)


def environment(stand_ins: Path) -> dict[str, str]:
    """No network, and the stand-ins where the hub's files are looked for."""
    path = [str(HERE / "plugin"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(stand_ins / "hub"),
        "HF_DATASETS_CACHE": str(stand_ins / "cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "PYTHONPATH": os.pathsep.join(x for x in path if x),
    }


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The outcome of each test."""
    found: dict[str, dict[str, Any]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        before = found.get(one["test"])
        if before is None or _ORDER.index(one["outcome"]) > _ORDER.index(before["outcome"]):
            found[one["test"]] = one
    return found


def verdict(theirs: dict[str, Any] | None, ours: dict[str, Any] | None) -> str:
    """Where a test stands."""
    if theirs is None or ours is None:
        return "not run with both"
    outcomes = theirs["outcome"], ours["outcome"]
    if "skipped" in outcomes:
        return "skipped"
    if outcomes == ("failed", "failed"):
        return "failed by both"
    if outcomes == ("passed", "failed"):
        refused = any(words in ours["why"] for words in REFUSAL)
        return "refused by ours" if refused else "failed with ours alone"
    if outcomes == ("failed", "passed"):
        return "failed with TRL's alone"
    return "passed, ours refused" if ours["refused"] else "passed by both"


COLUMNS = (
    "passed by both", "passed, ours refused", "failed by both", "failed with TRL's alone",
    "skipped", "not run with both", "refused by ours", "failed with ours alone",
)  # fmt: skip


def table(results: Path) -> tuple[str, int]:
    """Markdown, and how many tests failed with ours alone."""
    lines = ["| tests | " + " | ".join(COLUMNS) + " |", "| --- " * (len(COLUMNS) + 1) + "|"]
    details: list[str] = []
    failures = 0
    for name in FILES:
        files = [results / f"{name}.{variant}.jsonl" for variant in VARIANTS]
        if not all(file.exists() for file in files):
            continue
        theirs, ours = map(read, files)
        by = {test: verdict(theirs.get(test), ours.get(test)) for test in theirs | ours}
        count = Counter(by.values())
        failures += count["failed with ours alone"]
        lines.append(f"| {name} | " + " | ".join(str(count[c]) for c in COLUMNS) + " |")
        for test, where in sorted(by.items()):
            if where not in ("passed by both", "skipped", "not run with both"):
                source = theirs if where == "failed by both" else ours
                one = source[test]
                why = (one["refused"] or [one["why"]])[0]
                details.append(f"{where}: {test.split('::', 1)[1]}: {why[:200]!r}")
        reasons = Counter(
            one["why"].removeprefix("Skipped: ")[:80]
            for test, one in theirs.items()
            if by[test] == "skipped"
        )
        details += [f"skipped: {name}: {n} tests: {why}" for why, n in reasons.most_common()]
    return "\n".join([*lines, "", *details]), failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", choices=[*FILES, []], metavar="FILE")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "trl_tests")
    parser.add_argument("--variant", choices=VARIANTS, help="only this one")
    parser.add_argument("--steps", type=int, default=0, help="end trainings that name no end")
    parser.add_argument("--cut", action="store_true", help="one row a micro-batch, as many more")
    parser.add_argument("--minutes", type=float, help="stop each file's run after so many")
    parser.add_argument("--again", action="store_true", help="run also what was run before")
    own, _, extra = _split(sys.argv[1:])
    given = parser.parse_args(own)
    stand_ins = given.results / "stand_ins"
    given.results.mkdir(parents=True, exist_ok=True)
    if not (stand_ins / "failed.json").exists():
        shutil.rmtree(stand_ins, ignore_errors=True)
        stand_ins.mkdir()
        command = [sys.executable, "-m", "tests.trl_own_tests.stand_ins", given.checkout, stand_ins]
        subprocess.run([str(x) for x in command], check=True, env=environment(stand_ins))
    for name in given.files or FILES:
        for variant in VARIANTS if given.variant is None else (given.variant,):
            run(given, stand_ins, name, variant, extra)
    text, failures = table(given.results)
    sys.stdout.write(text + "\n")
    return int(bool(failures))


def _split(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """Before and after `--`: ours, and pytest's."""
    where = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:where], "--", arguments[where + 1 :]


if __name__ == "__main__":
    sys.exit(main())
