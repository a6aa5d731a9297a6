"""Recipes as files: ``tests/cases/recipes``, marked as the cases of rules are.

``# expect: MEM301, MEM501 hint`` at the end of a line names what is found there; ``# select:``
in the head names the rules that are asked, ``# target:`` the versions, ``# reader:`` the program
that a command gives the file to. ``name.fixed.yaml`` is what
all their fixes make of the recipe. Marks and head are taken off before it is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import Fixed, fix_source
from memlint.fix.recipe_edits import apply_recipe_edits
from memlint.recipes.kinds import Kind, Reader, reader_by_keys
from memlint.recipes.recipe import read_recipe
from memlint.rule.findings import Finding
from memlint.rule.registry import load, selected
from memlint.run.engine import Asked
from memlint.run.recipes import examine_recipe_source
from memlint.run.runs import Runs
from memlint.source import Source

CASES = Path(__file__).parents[2] / "cases" / "recipes"
_MARK = re.compile(r"[ ]{2}# expect: (?P<expected>[^\n#]+)$")
_HEADER = re.compile(r"# (?P<key>target|about|select|reader): (?P<value>.*)$")


class Case(NamedTuple):
    """A recipe and what must be found in it: (row, code, level or "") in order."""

    path: Path
    text: str
    expected: list[tuple[int, str, str]]
    head: dict[str, str]

    @property
    def fixed(self) -> str | None:
        twin = self.path.with_name(f"{self.path.stem}.fixed{self.path.suffix}")
        return twin.read_text(encoding="utf-8") if twin.is_file() else None


def parse(path: Path) -> Case:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    head: dict[str, str] = {}
    while lines and (found := _HEADER.match(lines[0])):
        head[found["key"]] = found["value"].strip()
        del lines[0]
    expected = []
    for row, line in enumerate(lines, start=1):
        body = line.rstrip("\n")
        mark = _MARK.search(body)
        if mark is not None:
            for each in mark["expected"].split(","):
                code, _, level = each.strip().partition(" ")
                expected.append((row, code, level))
            lines[row - 1] = body[: mark.start()] + line[len(body) :]
    return Case(path, "".join(lines), expected, head)


def check(case: Case, source: Source) -> list[Finding]:
    named = Reader(Kind(case.head["reader"]), "a command") if "reader" in case.head else None
    recipe = read_recipe(source, lambda root: named or reader_by_keys(root))
    assert recipe is not None, "no kind of recipe"
    codes = selected(case.head["select"].split(",")) if "select" in case.head else selected(None)
    target = case.head.get("target", "")
    api = Api(parse_target(target) if target else newest())
    rules = load(codes)
    chosen = frozenset(rule.code for rule in rules if "select" in case.head or not rule.on_request)
    alone = Runs(f"/nowhere/{source.path}")
    return examine_recipe_source(source, [recipe], Asked(rules, api, chosen), alone).findings


def fix(case: Case, text: str) -> Fixed:
    def reread(text: str) -> Source:
        return Source(case.path.name, text)

    return fix_source(
        reread(text),
        unsafe=True,
        check=lambda source: check(case, source),
        reread=reread,
        apply=apply_recipe_edits,
    )


ALL = [parse(path) for path in sorted(CASES.glob("*.*")) if ".fixed" not in path.name]
NAMED = [pytest.param(case, id=case.path.stem) for case in ALL]


@pytest.mark.parametrize("case", NAMED)
def test_finds_what_the_marks_say(case: Case) -> None:
    source = Source(case.path.name, case.text)
    found = [
        (source.location(each.span.start).row, each.code, each.level.value)
        for each in check(case, source)
    ]
    levels = {(row, code): level for row, code, level in case.expected}
    shown = [(r, c, level if levels.get((r, c)) else "") for r, c, level in found]
    assert sorted(shown) == sorted(case.expected)


@pytest.mark.parametrize("case", NAMED)
def test_fixes_write_what_the_twin_says(case: Case) -> None:
    result = fix(case, case.text)
    assert result.error is None
    assert result.refused == ()
    assert result.source.text == (case.fixed or case.text)


@pytest.mark.parametrize("case", NAMED)
def test_a_second_run_changes_nothing_and_comments_stay(case: Case) -> None:
    once = fix(case, case.text).source.text
    assert fix(case, once).source.text == once
    comments = re.findall(r"(?m)(?:^|(?<= ))#.*$", case.text)
    assert re.findall(r"(?m)(?:^|(?<= ))#.*$", once) == comments
