"""Rows of the sources and faulty loops: what is found stays found."""

from __future__ import annotations

import pytest

from tests.mission import Outcome, judge_loops, judge_rows, rows

# Rows of which something is not found, or which need another file than a script.
GAPS: frozenset[int] = frozenset()


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    return judge_rows(tuple(row for row in rows() if row.number not in GAPS))


def test_every_row_but_the_named_gaps_is_found(outcomes: dict[int, Outcome]) -> None:
    assert {number: one.missing for number, one in outcomes.items() if one.missing} == {}


def test_planted_faults_are_found() -> None:
    missing = {name: set(one.missing) - UNBUILT for name, one in judge_loops().items()}
    assert {name: codes for name, codes in missing.items() if codes} == {}


# Codes of planted faults without a rule.
UNBUILT: frozenset[str] = frozenset()
