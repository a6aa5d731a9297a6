"""Rows of the sources and faulty loops: what is found stays found."""

from __future__ import annotations

import pytest

from tests.mission import Outcome, judge_loops, judge_rows, rows

# Rows of which something is not found: caches as tuples (40), torchtune's own classes (48), hooks
# beside a loss that is divided (54), a script whose arguments a YAML file gives (80).
GAPS = frozenset({40, 48, 54, 80})


# Planted faults that are not found: what `accelerate config` decides (MEM402), and completions that
# a loop hoards (MEM702).
UNFOUND = {"l1_accelerate": {"MEM402"}, "l5_grpo": {"MEM702"}}


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    return judge_rows(tuple(row for row in rows() if row.number not in GAPS))


def test_every_row_but_the_named_gaps_is_found(outcomes: dict[int, Outcome]) -> None:
    assert {number: one.missing for number, one in outcomes.items() if one.missing} == {}


def test_planted_faults_are_found() -> None:
    missing = {name: set(one.missing) for name, one in judge_loops().items() if one.missing}
    assert missing == UNFOUND
