"""What runs in which tier."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.draws
@pytest.mark.parametrize("option", "abc")
@pytest.mark.parametrize("trainer", range(4))
def test_a_product(trainer: int, option: str) -> None:
    assert trainer in range(4)
    assert option in "abc"


@pytest.mark.draws(2)
@pytest.mark.parametrize("release", range(9))
def test_many_rows(release: int) -> None:
    assert release in range(9)


def collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    # Options of the run that tests this choose a tier, too.
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [*command, *options, __file__],
        cwd=ROOT, env=plain, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


def test_the_two_tiers_are_everything() -> None:
    first, second, everything = collected(), collected("-m", "matrix"), collected("-m", "")
    assert first | second == everything
    assert not first & second
    assert sum(name.startswith("test_many_rows") for name in first) == 2
    product = [name.partition("[")[2] for name in first if name.startswith("test_a_product")]
    assert {name[0] for name in product} == set("0123")
    assert {name[2] for name in product} == set("abc")
    assert len(product) < 12
    assert sum(not name.startswith("test_the_two") for name in everything) == 21
