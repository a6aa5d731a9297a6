"""Mutate training scripts, check and fix the mutants, and hold what a user relies on.

``python -m tests.fuzz FOLDER... [--mutants N] [--seed N] [--minutes N]`` draws scripts below the
folders (Python files that name a trainer or a backward pass), changes each a few times at random
(statements deleted, doubled, wrapped, swapped; options with odd values, over several lines, with
comments, unpacked from dictionaries, set later) and asks of every mutant, for a target drawn at
random:

* no rule and no part of the linter raises;
* check and fix together take at most five seconds of this process's time;
* what is fixed parses, a second run changes nothing more;
* every comment of the mutant is still there, unless an edit removed what it belongs to.

A failing mutant is written to ``--keep`` with its seed and target.
"""

from __future__ import annotations

import ast
import io
import itertools
import random
import re
import sys
import time
import tokenize
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import click

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import Fixed, fix_source
from memlint.rule import Rule
from memlint.rule.findings import Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source, Span
from memlint.source.edits import (
    Edit,
    RemoveImport,
    RemoveItem,
    RemoveKeyword,
    RemoveStatement,
    RenameImport,
)
from tests.mutations import mutate, offsets

TARGETS = (
    "", "trl=0.12,transformers=4.46", "trl=0.16,transformers=4.50", "trl=0.19,transformers=4.53",
    "trl=0.24,transformers=4.57", "trl=1.0,transformers=5.4",
)  # fmt: skip
SECONDS = 5.0
_LATE_COMMA = re.compile(r"\s*+(?:#.*\n\s*+)*+,[ \t]*(?=#|$)", re.MULTILINE)
_TRAINS = re.compile(r"Trainer\b|\.backward\(\)|from_pretrained\(")


class Failure(NamedTuple):
    """What a mutant broke."""

    what: str
    script: str
    seed: int
    target: str
    text: str


@cache
def _rules() -> tuple[Rule, ...]:
    return load(each.code for each in known_rules())


@cache
def _api(target: str) -> Api:
    return Api(parse_target(target) if target else newest())


class Comment(NamedTuple):
    """A comment and where it stands: 1-based row, column in characters."""

    text: str
    row: int
    column: int


def comments(text: str) -> list[Comment]:
    """Every comment of a script, in order."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return []
    return [
        Comment(each.string.strip(), *each.start)
        for each in tokens
        if each.type == tokenize.COMMENT
    ]


_Removed = ast.stmt | ast.expr | ast.keyword | ast.alias


def _removed(text: str, edits: Sequence[Edit]) -> Iterator[tuple[_Removed, _Removed]]:
    """(first, last) of what ``edits`` remove from ``text``: options, items, names, statements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = list(ast.walk(ast.parse(text)))
    starts = offsets(text)
    placed: dict[Span, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, _Removed):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
            placed.setdefault(Span(start, end), []).append(node)
    for edit in edits:
        match edit:
            case RemoveKeyword(call=where, name=name) | RemoveItem(mapping=where, key=name):
                yield from _options(placed.get(where, []), name)
            case RemoveStatement(span=where):
                for node in placed.get(where, []):
                    if isinstance(node, _Removed):
                        yield node, node
            case RemoveImport() | RenameImport():
                yield from _imported(nodes, edit.module, edit.name)


def _options(nodes: Sequence[ast.AST], name: str) -> Iterator[tuple[_Removed, _Removed]]:
    for node in nodes:
        if isinstance(node, ast.Call | ast.ClassDef):
            yield from ((each, each) for each in node.keywords if each.arg == name)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield key, value


def _imported(
    nodes: Sequence[ast.AST], module: str, name: str
) -> Iterator[tuple[_Removed, _Removed]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == module:
            if all(alias.name == name for alias in node.names):
                yield node, node
            yield from ((alias, alias) for alias in node.names if alias.name == name)
        elif isinstance(node, ast.Import) and any(a.name.startswith(module) for a in node.names):
            yield node, node


def comments_that_may_go(text: str, edits: Sequence[Edit]) -> Counter[str]:
    """The comments of ``text`` that belong to what ``edits`` remove.

    Those are the comments inside of it, up to its comma and behind that on the same line, and on
    lines of their own directly above it, if it begins its line.
    """
    written = comments(text)
    lines = text.splitlines()
    going: set[Comment] = set()
    for first, last in _removed(text, edits):
        begin, column, end = first.lineno, first.col_offset, last.end_lineno or last.lineno
        if not lines[begin - 1].encode()[:column].strip():
            column = 0
            while begin > 1 and lines[begin - 2].lstrip().startswith("#"):
                begin -= 1
        if comma := _LATE_COMMA.match("\n".join(lines[end:])):
            end += comma[0].count("\n") + 1
        going |= {
            comment
            for comment in written
            if begin <= comment.row <= end and (comment.row > begin or comment.column >= column)
        }
    return Counter(comment.text for comment in going)


def lost_comments(read: Sequence[tuple[str, Sequence[Finding]]], fixed: Fixed) -> list[str]:
    """The comments that a fix lost, though they belong to nothing that it removed.

    read: the text of each pass and what was found in it, the last one's result included.
    """
    applied = {id(finding) for finding in fixed.fixed}
    lost: Counter[str] = Counter()
    for (text, findings), (changed, _) in itertools.pairwise(read):
        gone = Counter(each.text for each in comments(text))
        gone -= Counter(each.text for each in comments(changed))
        if gone:
            edits = [
                edit for one in findings if id(one) in applied and one.fix for edit in one.fix.edits
            ]
            lost += gone - comments_that_may_go(text, edits)
    return sorted(lost.elements())


def examine(text: str, target: str, unsafe: bool) -> str | None:
    """What is wrong with how the linter treats ``text``; None if nothing is."""
    api = _api(target)
    rules = _rules()
    begin = time.process_time()

    read: list[tuple[str, list[Finding]]] = []
    # The second run begins with what the first ended with.
    findings_of = cache(lambda text: check_source(reread(text), rules, api))

    def check(source: Source) -> list[Finding]:
        read.append((source.text, findings_of(source.text)))
        return read[-1][1]

    def reread(new: str) -> Source:
        return Source("mutant.py", new)

    try:
        fixed = fix_source(reread(text), unsafe=unsafe, check=check, reread=reread)
        spent = time.process_time() - begin
        passes = read.copy()
        again = fix_source(fixed.source, unsafe=unsafe, check=check, reread=reread)
    except RecursionError:
        return "nested too deeply"
    except Exception:
        return "raised: " + traceback.format_exc(limit=-3)
    if spent > SECONDS:
        return f"took {spent:.1f} s"
    if fixed.error:
        return f"thrown away: {fixed.error}"
    for finding, reason in fixed.refused:
        if "report" in reason or "defect" in reason:
            return f"refused as a defect: {finding.code}: {reason}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(fixed.source.text)
    except SyntaxError as error:
        return f"the fixed text does not parse: {error}"
    if again.source.text != fixed.source.text:
        return "a second run changes more"
    lost = lost_comments(passes, fixed)
    if lost:
        return f"lost comments: {lost} by {sorted({v.code for v in fixed.fixed})}"
    return None


def _one(job: tuple[str, str, int]) -> tuple[bool, bool, Failure | None]:
    name, text, seed = job
    draw = random.Random(seed)
    mutant = mutate(text, draw)
    if mutant is None or mutant == text:
        return False, False, None
    target, unsafe = draw.choice(TARGETS), draw.random() < 0.5
    wrong = examine(mutant, target, unsafe)
    failure = Failure(wrong, name, seed, target, mutant) if wrong else None
    return True, bool(wrong), failure


def scripts(folders: Sequence[Path]) -> list[tuple[str, str]]:
    """(name, text) of the training scripts below ``folders`` that parse."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
            text = path.read_text(encoding="utf-8", errors="replace")
            if len(text) > 60_000 or not _TRAINS.search(text):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            found.append((str(path), text))
    return found


def jobs(found: Sequence[tuple[str, str]], mutants: int, seed: int) -> list[tuple[str, str, int]]:
    """``mutants`` jobs over the scripts, each with a seed of its own."""
    draw = random.Random(seed)
    return [(*draw.choice(found), draw.randrange(2**40)) for _ in range(mutants)]


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--mutants", default=20_000)
@click.option("--seed", default=0)
@click.option("--minutes", default=600.0, help="Stop after so long, and report what was done.")
@click.option("--workers", default=2)
@click.option("--keep", type=click.Path(path_type=Path), help="Where failing mutants are written.")
def main(
    folders: tuple[Path, ...], mutants: int, seed: int, minutes: float, workers: int,
    keep: Path | None,
) -> None:  # fmt: skip
    """Check and fix mutants of the training scripts below FOLDERS."""
    found = scripts(folders)
    done = 0
    causes: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes
    with Pool(workers) as pool:
        for made, _, failure in pool.imap_unordered(_one, jobs(found, mutants, seed), 4):
            done += made
            if time.monotonic() > end:
                break
            if failure is not None:
                cause = failure.what.strip().splitlines()[-1][:160]
                causes[cause] += 1
                if keep is not None and causes[cause] <= 3:
                    keep.mkdir(parents=True, exist_ok=True)
                    head = f"# {failure.script} seed {failure.seed} target {failure.target!r}\n"
                    name = f"{len(list(keep.iterdir())):03}.py"
                    what = "".join(f"# {line}\n" for line in failure.what.splitlines())
                    (keep / name).write_text(head + what + failure.text, encoding="utf-8")
    click.echo(f"scripts: {len(found)}, mutants: {done}, failures: {sum(causes.values())}")
    for cause, count in causes.most_common():
        click.echo(f"  {count:6} {cause}")
    sys.exit(1 if causes else 0)


if __name__ == "__main__":
    main()
