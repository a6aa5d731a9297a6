"""Precision and recall on labelled files: ``python -m tests.labels ROOT``.

ROOT holds checkouts of the public repositories, ``OWNER__NAME`` each. ``labels.jsonl`` has one
label a line: repository, commit, path, line (and cell of a notebook), code, label and a note in
our own words. ``yes`` is a fault that the linter should find. ``no`` is a trap: a place that looks
like a fault and is none. ``may`` is a matter of opinion, which counts neither way. A finding
without a label is wrong. Hints are left out. Findings meet labels of their code, file and cell
within ``NEAR`` lines, the nearest first, each label once. A finding elsewhere in the file meets a
fault of its code that is left: a value may live far from where it takes effect. All files are
checked for the newest versions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import click

LABELS = Path(__file__).parent / "labels.jsonl"
NEAR = 12


class Label(NamedTuple):
    """What was read at a place. line is 0 for a file without any label but that it was read."""

    repository: str
    commit: str
    path: str
    cell: int | None
    line: int
    code: str
    label: str
    note: str

    @property
    def file(self) -> str:
        return f"{self.repository.replace('/', '__')}/{self.path}"


class Verdict(NamedTuple):
    """Counts by code, and what was missed and wrong, in words."""

    right: Counter[str]
    wrong: Counter[str]
    missed: Counter[str]
    words: tuple[str, ...]


def read_labels() -> tuple[Label, ...]:
    """All labels, in the order of the file."""
    lines = LABELS.read_text(encoding="utf-8").splitlines()
    return tuple(Label(**{"cell": None, **json.loads(line)}) for line in lines if line)


def findings(root: Path, files: list[str]) -> list[dict[str, Any]]:
    """Findings of all rules in ``files``, hints left out."""
    done = subprocess.run(
        [sys.executable, "-m", "memlint", "check", *files, "--no-cache", "--select", "ALL",
         "--target", "newest", "--output-format", "json"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Traceback" in done.stderr or not done.stdout:
        raise click.ClickException(done.stderr[-2000:])
    found = json.loads(done.stdout)
    return [one for one in found if one["code"] and one["level"] in ("error", "waste")]


def judge(labels: tuple[Label, ...], found: list[dict[str, Any]], root: Path) -> Verdict:
    """Match findings with labels."""
    open_labels: dict[tuple[str, str], list[Label]] = defaultdict(list)
    for label in labels:
        if label.code:
            open_labels[label.file, label.code].append(label)
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    words = []
    start = f"{root.resolve()}/"
    left = []
    for each in found:
        name, code = each["filename"].removeprefix(start), each["code"]
        row, cell = each["location"]["row"], each.get("cell")
        near = [
            one
            for one in open_labels[name, code]
            if one.cell == cell and abs(one.line - row) <= NEAR
        ]
        if not near:
            left.append((name, code, row, cell, each["message"]))
            continue
        best = min(near, key=lambda one: (abs(one.line - row), one.label != "yes"))
        open_labels[name, code].remove(best)
        (wrong if best.label == "no" else right)[code] += best.label != "may"
        if best.label == "no":
            words.append(_wrong(name, code, row, cell, each["message"]))
    for name, code, row, cell, message in left:
        faults = [one for one in open_labels[name, code] if one.label == "yes"]
        if faults:
            open_labels[name, code].remove(faults[0])
            right[code] += 1
        else:
            wrong[code] += 1
            words.append(_wrong(name, code, row, cell, message))
    for rest in open_labels.values():
        for one in rest:
            if one.label == "yes":
                missed[one.code] += 1
                place = f"{one.cell}:{one.line}" if one.cell else str(one.line)
                words.append(f"missed {one.code} {one.file}:{place} {one.note}")
    return Verdict(right, wrong, missed, tuple(sorted(words)))


def _wrong(name: str, code: str, row: int, cell: int | None, message: str) -> str:
    return f"wrong  {code} {name}:{f'{cell}:' if cell else ''}{row} {message[:90]}"


@click.command()
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--words/--no-words", default=False, help="Print what is missed and wrong.")
def main(root: Path, words: bool) -> None:
    """Print precision and recall by rule and over all rules."""
    labels = read_labels()
    files = sorted({label.file for label in labels})
    there = [name for name in files if (root / name).is_file()]
    verdict = judge(
        tuple(one for one in labels if one.file in set(there)), findings(root, there), root
    )
    click.echo(
        f"{len(there)} of {len(files)} files, {sum(one.code != '' for one in labels)} labels"
    )
    click.echo(f"{'code':8} {'right':>6} {'wrong':>6} {'missed':>6} {'precision':>9} {'recall':>7}")
    for code in sorted({*verdict.right, *verdict.wrong, *verdict.missed}):
        _print(code, verdict.right[code], verdict.wrong[code], verdict.missed[code])
    _print("all", *(one.total() for one in verdict[:3]))
    for line in verdict.words if words else ():
        click.echo(line)


def _print(name: str, right: int, wrong: int, missed: int) -> None:
    precision = f"{right / (right + wrong):.2f}" if right + wrong else "-"
    recall = f"{right / (right + missed):.2f}" if right + missed else "-"
    click.echo(f"{name:8} {right:6} {wrong:6} {missed:6} {precision:>9} {recall:>7}")


if __name__ == "__main__":
    main()
