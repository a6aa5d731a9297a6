"""memlint beside other linters, on your own scripts: ``python -m tools.peers FOLDER -o sheet.tsv``.

Chooses scripts that train below FOLDER by a seed, one of each project (folder in FOLDER), and runs
every tool that is installed on each: memlint, ruff, torchfix, torch-preflight, alloc, peft-doctor.
Writes a row for every finding, with its line of the script, and an empty column. Who reads the
scripts fills it: `r` right, `w` wrong, `o` right but of something else than memory, speed or
versions (style, output, logging). `--score sheet.tsv` counts. `--bin DIR` is where the tools are.

Each tool gets its defaults. What it calls passed ("OK") or cannot know without a GPU is no finding.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

TRAINS = re.compile(r"\.backward\(|\w*Trainer\(")
TESTS = re.compile(r"(^|/)(tests?|docs?|site-packages)/|(^|/)(test_|conftest)")
MOST_BYTES, SECONDS = 30_000, 120
COLUMNS = ("script", "tool", "line", "code", "message", "verdict", "source")


class Row(NamedTuple):
    """A finding of a tool; line 0: of the whole script."""

    line: int
    code: str
    message: str


def chosen(folder: Path, count: int, seed: int) -> list[Path]:
    """Return scripts that train, one of each project, by the seed."""
    projects = sorted(each for each in folder.iterdir() if each.is_dir()) or [folder]
    chance = random.Random(seed)
    chance.shuffle(projects)
    found: list[Path] = []
    for project in projects:
        scripts = [path for path in sorted(project.rglob("*.py")) if _trains(path, project)]
        if scripts and len(found) < count:
            found.append(chance.choice(scripts))
    return found


def _trains(path: Path, project: Path) -> bool:
    if TESTS.search(path.relative_to(project).as_posix()) or not path.is_file():
        return False
    if path.stat().st_size > MOST_BYTES:
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return ("torch" in text or "transformers" in text) and bool(TRAINS.search(text))


def _memlint(found: Any) -> Iterator[Row]:
    for each in found:
        yield Row(
            each["location"]["row"], each["code"] or "-", f"({each['level']}) {each['message']}"
        )


def _ruff(found: Any) -> Iterator[Row]:
    for each in found:
        yield Row(each["location"]["row"], each["code"] or "-", each["message"])


def _preflight(found: Any) -> Iterator[Row]:
    for each in found["diagnostics"]:
        yield Row(each["line"], each["code"], f"({each['severity']}) {each['message']}")


def _alloc(found: Any) -> Iterator[Row]:
    for each in found["findings"]:
        text = f"({each['severity']}) {each['title']}: {each['suggested_value']}"
        yield Row(each["line_number"], each["rule_id"], text)


def _peft_doctor(found: Any) -> Iterator[Row]:
    for each in found["issues"]:
        if each["severity"].lower() not in ("ok", "pass") and each["code"] != "memory.no_cuda":
            text = f"({each['severity']}) {each['title']}: {each['message']}"
            yield Row(0, each["code"], text)


def _torchfix(text: str) -> Iterator[Row]:
    for match in re.finditer(r"(?m)^.*?:(\d+):\d+: (TOR\d+) (?:\[\*\] )?(.*)$", text):
        yield Row(int(match[1]), match[2], match[3])


JSON: dict[str, tuple[list[str], Callable[[Any], Iterator[Row]]]] = {
    "memlint": (["check", "--no-cache", "--output-format", "json"], _memlint),
    "ruff": (["check", "--isolated", "--no-cache", "--output-format", "json"], _ruff),
    "torch-preflight": (["check", "-f", "json"], _preflight),
    "alloc": (["diagnose", "--json", "--no-config", "--no-artifact"], _alloc),
    "peft-doctor": (["check", "-o", "json"], _peft_doctor),
}
TOOLS = (*JSON, "torchfix")


def rows_of(tool: str, program: str, script: Path) -> list[Row]:
    """Return what a tool finds in a script; a row that says so where it fails."""
    words = JSON[tool][0] if tool in JSON else []
    try:
        done = subprocess.run(
            [program, *words, str(script)], capture_output=True, text=True, timeout=SECONDS,
            check=False, cwd=script.parent,
        )  # fmt: skip
        if tool not in JSON:
            return list(_torchfix(done.stdout))
        start = min(at for at in map(done.stdout.find, "[{") if at >= 0)
        value, _ = json.JSONDecoder().raw_decode(done.stdout[start:])
        return list(JSON[tool][1](value))
    except (ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return [Row(0, "failed", f"{type(error).__name__}: {error}")]


def write(folder: Path, sheet: Path, count: int, seed: int, programs: dict[str, str]) -> None:
    """Run all tools on the chosen scripts, and write a row for each finding."""
    scripts = chosen(folder, count, seed)
    with sheet.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, delimiter="\t")
        table.writerow(COLUMNS)
        for script in scripts:
            lines = script.read_text(encoding="utf-8", errors="replace").split("\n")
            name = script.relative_to(folder).as_posix()
            for tool, program in programs.items():
                for row in rows_of(tool, program, script.resolve()):
                    source = lines[row.line - 1].strip() if 0 < row.line <= len(lines) else ""
                    said = " ".join(row.message.split())
                    table.writerow([name, tool, row.line, row.code, said, "", source[:120]])
    sys.stdout.write(f"{len(scripts)} scripts, {', '.join(programs)}: {sheet}\n")


def score(sheet: Path) -> None:
    """Print how many findings of each tool are right, wrong, of something else and not judged."""
    with sheet.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    counts = Counter((row["tool"], row["verdict"] or "?") for row in rows)
    sys.stdout.write(
        "| tool | right | wrong | of something else | not judged |\n| --- " + "| --- " * 4
    )
    sys.stdout.write("|\n")
    for tool in dict.fromkeys(row["tool"] for row in rows):
        numbers = " | ".join(str(counts[tool, verdict]) for verdict in "rwo?")
        sys.stdout.write(f"| {tool} | {numbers} |\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, default=Path("sheet.tsv"))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", default=None, help="the folder of the tools' programs")
    parser.add_argument("--score", type=Path, metavar="SHEET")
    options = parser.parse_args()
    if options.score is not None:
        score(options.score)
        return 0
    if options.folder is None or not options.folder.is_dir():
        parser.error("expected a folder of scripts, or --score SHEET")
    found = {tool: shutil.which(tool, path=options.bin) or shutil.which(tool) for tool in TOOLS}
    programs = {tool: program for tool, program in found.items() if program is not None}
    for tool in TOOLS:
        if tool not in programs:
            sys.stderr.write(f"{tool} is not installed: left out\n")
    write(options.folder, options.output, options.count, options.seed, programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
