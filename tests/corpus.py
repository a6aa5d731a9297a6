"""Check and fix every script of a folder of checkouts, and verify what a user relies on.

``python -m tests.corpus FOLDER [--sample N]`` runs ``memlint check`` over FOLDER, then ``memlint
fix --unsafe-fixes`` over a copy, twice, and prints counts. It fails (exit status 1) where

* a run crashes or prints a traceback,
* a file that parsed before does not parse afterwards,
* a file that was not announced as changed has other bytes than before,
* the second run changes anything,
* a line changed that no edit of the first pass, nor of a later one, could have named: every changed
  file is rewritten pass by pass, and each difference must lie within an edit.

``--sample N`` draws N findings at random (``--seed``) for reading by eye.
"""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click

from memlint.source import Span
from memlint.source.edits import Edit, WrapStatements

_SKIPPED = shutil.ignore_patterns(".git", ".venv", "venv", "node_modules", "*.bin", "*.pt", "*.csv")


@dataclass
class Counts:
    """What one run over a folder showed."""

    files: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    diagnostics: int = 0
    changed: int = 0
    failures: list[str] = field(default_factory=list)


def memlint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "memlint", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def scripts(folder: Path) -> dict[Path, bytes]:
    """Every Python file and notebook below ``folder`` with its bytes."""
    return {
        path: path.read_bytes()
        for pattern in ("*.py", "*.ipynb")
        for path in sorted(folder.rglob(pattern))
        if path.is_file() and not path.is_symlink()
    }


def crashed(run: subprocess.CompletedProcess[str]) -> bool:
    """True if a run ended otherwise than by one of its exit statuses, or showed its insides."""
    return run.returncode not in (0, 1, 2) or "Traceback (most recent call last)" in run.stderr


def parses(path: Path, data: bytes) -> bool:
    """True if a script parses, or a notebook is JSON whose untouched part nobody doubts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix == ".ipynb":
                json.loads(data)
            else:
                ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def cells(data: bytes) -> list[str]:
    """The sources of a notebook's code cells."""
    book = json.loads(data)
    return [
        "".join(cell.get("source", ""))
        for cell in book.get("cells", [])
        if cell.get("cell_type") == "code"
    ]


def newly_broken_cells(before: bytes, after: bytes) -> int:
    """How many code cells parsed before and do not any more."""

    def good(source: str) -> bool:
        plain = "\n".join(
            "pass" if line.lstrip()[:1] in ("%", "!", "?") else line for line in source.split("\n")
        )
        return parses(Path("cell.py"), plain.encode())

    return sum(
        good(old) and not good(new) for old, new in zip(cells(before), cells(after), strict=True)
    )


def check(folder: Path, counts: Counts) -> list[dict[str, object]]:
    """``memlint check`` over a folder: its findings, as JSON gives them."""
    run = memlint("check", "--output-format", "json", "--no-cache", ".", cwd=folder)
    if crashed(run):
        counts.failures.append(f"check crashed: {run.stderr[-2000:]}")
        return []
    findings: list[dict[str, object]] = json.loads(run.stdout)
    counts.findings.update(str(finding["code"]) for finding in findings)
    counts.diagnostics = sum(": error: " in line for line in run.stderr.splitlines())
    return findings


def fix(folder: Path, counts: Counts) -> None:
    """``memlint fix --unsafe-fixes`` over a copy of ``folder``, twice."""
    before = scripts(folder)
    counts.files = len(before)
    run = memlint("fix", "--unsafe-fixes", ".", cwd=folder)
    if crashed(run):
        counts.failures.append(f"fix crashed: {run.stderr[-2000:]}")
    after = scripts(folder)
    announced = run.stdout + run.stderr
    for path, old in before.items():
        new = after[path]
        if new == old:
            continue
        counts.changed += 1
        name = str(path.relative_to(folder))
        if name not in announced:
            counts.failures.append(f"{name}: changed without a word")
        if parses(path, old) and not parses(path, new):
            counts.failures.append(f"{name}: does not parse any more")
        elif path.suffix == ".ipynb" and newly_broken_cells(old, new):
            counts.failures.append(f"{name}: a cell does not parse any more")
    again = memlint("fix", "--unsafe-fixes", ".", cwd=folder)
    if crashed(again):
        counts.failures.append(f"the second fix crashed: {again.stderr[-2000:]}")
    for path, new in scripts(folder).items():
        if new != after[path]:
            counts.failures.append(f"{path.relative_to(folder)}: changed by a second run")
    counts.failures += [line for line in announced.splitlines() if "please report this" in line]


def named_spans(edit: Edit) -> list[Span]:
    """What ``edit`` names: each of its spans; statements that it wraps from first to last."""
    if isinstance(edit, WrapStatements):
        return [Span(edit.first.start, edit.last.end)]
    return [
        each for each in (getattr(edit, name) for name in edit._fields) if isinstance(each, Span)
    ]


def lines_outside_edits(folder: Path) -> list[str]:
    """Places where a pass over a script changed a line that none of its edits names."""
    from memlint.api.lookup import Api
    from memlint.api.target_versions import newest
    from memlint.rule.findings import Applicability
    from memlint.rule.registry import known_rules, load
    from memlint.run.engine import check_source
    from memlint.source.diagnostics import ReadError
    from memlint.source.parsing import parsed
    from memlint.source.reading import read_source
    from tests.memlint.fix.places import apply_edits

    rules = load([rule.code for rule in known_rules()])
    api = Api(newest())
    failures = []
    for path, data in scripts(folder).items():
        try:
            source = read_source(path, data)
            findings = check_source(source, rules, api)
        except (ReadError, SyntaxError, RecursionError):
            continue
        fixes = [
            one.fix.edits
            for one in findings
            if one.fix and one.fix.edits and one.fix.applicability is not Applicability.DISPLAY
        ]
        if not fixes:
            continue
        applied = apply_edits(source.text, fixes)
        # In their order: two insertions at one place stand as they are listed.
        expected, copied = b"", 0
        for edit in applied.edits:
            expected += source.data[copied : edit.span.start] + edit.content.encode()
            copied = edit.span.end
        expected += source.data[copied:]
        if expected != applied.text.encode():
            failures.append(f"{path.relative_to(folder)}: more changed than the edits say")
        named = [
            (source.line(span.start), source.line(span.end))
            for number in applied.applied
            for edit in fixes[number]
            for span in named_spans(edit)
        ]
        # Imports are named by what they import, not by their place.
        imports = [
            range(node.lineno - 1, node.end_lineno or node.lineno)
            for node in ast.walk(parsed(source.text))
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        for edit in applied.edits:
            line = source.line(edit.span.start)
            is_import = "import" in edit.content or any(line in one for one in imports)
            if not is_import and not any(low - 1 <= line <= high + 1 for low, high in named):
                failures.append(f"{path.relative_to(folder)}:{line + 1}: no edit names this line")
    return failures


def show(findings: list[dict[str, object]], count: int, seed: int) -> None:
    """Findings drawn at random, each with the code around it."""
    drawn = random.Random(seed).sample(findings, min(count, len(findings)))
    for number, finding in enumerate(drawn, 1):
        location = finding["location"]
        assert isinstance(location, dict)
        click.echo(
            f"{number}. {finding['filename']}:{finding.get('cell') or ''}:{location['row']} "
            f"{finding['code']} {finding['message']}"
        )


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--sample", default=0, help="Print so many findings drawn at random.")
@click.option("--seed", default=0, help="Seed of the draw.")
@click.option("--only-check", is_flag=True, help="Leave the fixes out.")
def main(folder: Path, sample: int, seed: int, only_check: bool) -> None:
    """Check and fix every script of FOLDER (on a copy) and print what was seen."""
    counts = Counts()
    findings = check(folder, counts)
    click.echo(f"findings: {sum(counts.findings.values())}, unreadable: {counts.diagnostics}")
    for code, number in sorted(counts.findings.items()):
        click.echo(f"  {code} {number}")
    if sample:
        show(findings, sample, seed)
    if not only_check:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "copy"
            shutil.copytree(folder, copy, symlinks=True, ignore=_SKIPPED)
            counts.failures += lines_outside_edits(copy)
            fix(copy, counts)
        click.echo(f"files: {counts.files}, changed by the fixes: {counts.changed}")
    for failure in counts.failures:
        click.echo(f"FAILED {failure}")
    sys.exit(1 if counts.failures else 0)


if __name__ == "__main__":
    main()
