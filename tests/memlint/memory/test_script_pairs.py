"""Estimates from scripts are those from the same run's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.memory import estimate
from tests.memlint.memory.script_pairs import PAIRS, Pair, read_pair


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_a_script_needs_what_its_settings_need(pair: Pair, tmp_path: Path) -> None:
    found = estimate(read_pair(pair, tmp_path)).allocated.estimate
    wanted = estimate(pair.settings).allocated.estimate
    assert found == pytest.approx(wanted, rel=0.03)
