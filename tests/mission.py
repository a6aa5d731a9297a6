"""What the sources of memlint describe, row by row: ``python -m tests.mission``.

A row of ``tests/cases/mission/rows.toml`` is one saving or trap that a source describes. Its
snippets begin with its number. The first lines of a snippet say for which versions it is
(``# target: trl=1.0``) and what is found (``# expect: MEM101 unsafe, MEM103``): a code, and at
will the kind of its fix; ``-`` where nothing is expected. A folder is a project: its files may
configure ``train.py``. A row without snippets is answered by the runtime alone.

``tests/cases/loops`` holds hand-written loops, each with faults marked ``# planted: MEM204``.
Both tables say what is found and what is not.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import click

from memlint.rule.registry import known_rules

CASES = Path(__file__).parent / "cases"
ROWS, LOOPS = CASES / "mission", CASES / "loops"
_HEADER = re.compile(r"(?m)^# (?P<key>target|expect): (?P<value>.*)$")
_PLANTED = re.compile(r"# planted: (?P<codes>[A-Z0-9, ]+)$")
# How a snippet's header calls a fix that is shown and never applied.
_ADVICE = "advice"


class Snippet(NamedTuple):
    """One script of a row. expected: (code, kind of fix or "")."""

    path: Path
    target: str
    expected: tuple[tuple[str, str], ...]


class Row(NamedTuple):
    """One thing that a source describes."""

    number: int
    source: str
    item: str
    names: tuple[str, ...]
    snippets: tuple[Snippet, ...]


class Outcome(NamedTuple):
    """What was seen of a row or a loop. missing: what was expected and not found, in words."""

    found: int
    expected: int
    fixed: int
    missing: tuple[str, ...]


def rows() -> tuple[Row, ...]:
    """Every row with its snippets, by number."""
    by_number: dict[int, list[Snippet]] = defaultdict(list)
    for path in sorted(ROWS.iterdir()):
        if path.name[:2].isdigit():
            by_number[int(path.name[:2])].append(_snippet(path))
    listed = tomllib.loads((ROWS / "rows.toml").read_text(encoding="utf-8"))
    return tuple(
        Row(int(number), source, item, tuple(names), tuple(by_number[int(number)]))
        for number, (source, item, *names) in listed.items()
    )


def _snippet(path: Path) -> Snippet:
    script = path / "train.py" if path.is_dir() else path
    if not script.is_file():
        # A recipe or a launch command: any finding will do.
        return Snippet(next(iter(sorted(path.iterdir()))), "", (("MEM", ""),))
    targets: list[str] = []
    expected: list[tuple[str, str]] = []
    for match in _HEADER.finditer(script.read_text(encoding="utf-8")):
        if match["key"] == "target":
            targets.append(match["value"])
        elif match["value"] != "-":
            words = [each.split() for each in match["value"].split(",")]
            expected += [(code, "".join(kind)) for code, *kind in words]
    return Snippet(script, ",".join(targets), tuple(expected))


def planted(path: Path) -> Counter[str]:
    """The codes of the faults that a loop's marks name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marks = [match["codes"] for line in lines if (match := _PLANTED.search(line))]
    return Counter(code.strip() for codes in marks for code in codes.split(","))


def findings(paths: list[Path], target: str = "") -> dict[str, list[dict[str, Any]]]:
    """Findings of all rules by path, as the command line prints them."""
    command = [sys.executable, "-m", "memlint", "check", *map(str, paths), "--no-cache"]
    # Some hints are given by their code alone.
    codes = ",".join(["ALL", *(each.code for each in known_rules())])
    options = ["--select", codes, "--output-format", "json", "--target", target or "newest"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if "Traceback" in done.stderr or not done.stdout:
        raise click.ClickException(done.stderr[-2000:])
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in json.loads(done.stdout):
        found[each["filename"]].append(each)
    return found


def _kind(finding: dict[str, Any]) -> str:
    made = (finding.get("fix") or {}).get("applicability", "")
    return _ADVICE if made == "display" else str(made)


def judge_rows(listed: tuple[Row, ...]) -> dict[int, Outcome]:
    """The outcome of each row: one run of the command line for each target."""
    by_target: dict[str, list[Path]] = defaultdict(list)
    for row in listed:
        for snippet in row.snippets:
            by_target[snippet.target].append(snippet.path)
    found: dict[str, list[dict[str, Any]]] = {}
    for target, paths in by_target.items():
        found.update(findings(paths, target))
    offered = _runtime_names()
    return {row.number: _judge(row, found, offered) for row in listed}


def _judge(row: Row, found: dict[str, list[dict[str, Any]]], offered: frozenset[str]) -> Outcome:
    missing = [f"memlint_runtime.{name}" for name in row.names if name not in offered]
    count, hits, fixed = len(row.names), len(row.names) - len(missing), 0
    for snippet in row.snippets:
        seen = found.get(str(snippet.path), [])
        for code, kind in snippet.expected:
            count += 1
            alike = [one for one in seen if str(one["code"]).startswith(code)]
            kinds = {_kind(one) for one in alike}
            if alike and (not kind or kind in kinds or (kind == _ADVICE and kinds - {""})):
                hits += 1
                fixed += bool(kinds & {"safe", "unsafe"})
            else:
                missing.append(f"{snippet.path.name}: {code} {kind}".rstrip())
    return Outcome(hits, count, fixed, tuple(missing))


def judge_loops() -> dict[str, Outcome]:
    """The outcome of each loop, by name."""
    paths = sorted(LOOPS.glob("*.py"))
    found = findings(paths)
    outcomes = {}
    for path in paths:
        expected = planted(path)
        seen = found.get(str(path), [])
        missing = expected - Counter(one["code"] for one in seen)
        fixed = sum(_kind(one) in ("safe", "unsafe") for one in seen if one["code"] in expected)
        total = expected.total()
        words = tuple(sorted(missing.elements()))
        outcomes[path.stem] = Outcome(total - len(words), total, fixed, words)
    return outcomes


def _runtime_names() -> frozenset[str]:
    """What ``memlint_runtime`` exports, read without importing torch."""
    path = Path(__file__).parents[1] / "runtime" / "memlint_runtime" / "__init__.py"
    strings = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = (one.value for one in strings if isinstance(one, ast.Constant))
    return frozenset(word for text in texts if isinstance(text, str) for word in text.split())


@click.command()
def main() -> None:
    """Print both tables."""
    listed = rows()
    outcomes = judge_rows(listed)
    click.echo(f"{'row':>3} {'source':12} {'found':>6} {'fixed':>5}  item")
    for row in listed:
        _print(f"{row.number:3} {row.source:12}", outcomes[row.number], row.item)
    whole = sum(not one.missing for one in outcomes.values())
    click.echo(f"rows without a gap: {whole} of {len(listed)}\n")
    click.echo(f"{'loop':20} {'found':>6} {'fixed':>5}")
    for name, outcome in judge_loops().items():
        _print(f"{name:20}", outcome, "")


def _print(head: str, outcome: Outcome, item: str) -> None:
    counts = f"{outcome.found}/{outcome.expected}"
    click.echo(f"{head} {counts:>6} {outcome.fixed:5}  {item}".rstrip())
    for each in outcome.missing:
        click.echo(f"{'':30} missing: {each}")


if __name__ == "__main__":
    main()
