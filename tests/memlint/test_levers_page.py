"""Each row of the page of levers: the rule, the estimate and the case that it names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from memlint.rule.registry import known_rules
from tests.levers import LEVERS, PAGE, Lever, both, page

ROOT = Path(__file__).parents[2]
CODES = {rule.code for rule in known_rules()}
OF_EACH = pytest.mark.parametrize("lever", LEVERS, ids=lambda lever: lever.name)


@OF_EACH
def test_a_rule_speaks_where_its_lever_is_missing_and_is_silent_where_it_is_used(
    lever: Lever,
) -> None:
    missing, used = ({one["code"] for one in side.findings} for side in both(lever.name))
    if lever.rule:
        assert lever.rule in CODES
        assert (missing, used) == ({lever.rule}, set())
    else:
        assert lever.reason
        # Newer names of the lever's own options are no matter of memory.
        assert {code for code in used - missing if code[:4] != "MEM9"} == set()


@OF_EACH
def test_an_estimate_counts_what_a_lever_saves(lever: Lever) -> None:
    missing, used = both(lever.name)
    if lever.saved is None:
        assert lever.reason
    else:
        assert lever.how
        wanted = pytest.approx(lever.saved, rel=lever.within, abs=1e6)
        assert missing.size - used.size == wanted


@OF_EACH
def test_the_case_of_a_row_exists(lever: Lever) -> None:
    name, _, test = lever.case.partition("::")
    text = (ROOT / name).read_text(encoding="utf-8")
    if test:
        assert test in {
            one.name for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)
        }


def test_the_page_is_what_the_rows_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.levers`"
