"""A share of the inputs of ``python -m tests.hostile``, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.hostile.running import input_of

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "fork") and os.path.exists("/dev/zero")),
    reason="bounds processes as Linux does",
)


@pytest.mark.parametrize("count", ["13", pytest.param("26", marks=pytest.mark.matrix)])
def test_hostile_inputs_end_soon_and_in_a_gibibyte(count: str) -> None:
    """Inputs of each of 13 readers. What grows without a bound takes far more than a minute."""
    command = [sys.executable, "-m", "tests.hostile", "--count", count, "--seconds", "60"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "notebook" in ended.stdout


def test_what_is_checked_is_fixed_too() -> None:
    commands = [input_of(number, 0).commands for number in range(34)]
    fixes = [each[1] for each in commands if len(each) > 1]
    assert len(fixes) > 10
    assert all(each[0] == "fix" and "--output-format" not in each for each in fixes)
