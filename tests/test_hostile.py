"""A share of the inputs of ``python -m tests.hostile``, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "fork") and os.path.exists("/dev/zero")),
    reason="bounds processes as Linux does",
)


def test_hostile_inputs_end_soon_and_in_a_gibibyte() -> None:
    """Two inputs of each reader. What grows without a bound takes far more than a minute."""
    command = [sys.executable, "-m", "tests.hostile", "--count", "26", "--seconds", "60"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "notebook" in ended.stdout
