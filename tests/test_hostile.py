"""A share of the inputs of ``python -m tests.hostile``, each in a process of its own."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(
    not (hasattr(os, "fork") and os.path.exists("/dev/zero")),
    reason="bounds processes as Linux does",
)


@pytest.mark.parametrize("number", range(39))
def test_a_hostile_input_takes_five_seconds_and_a_gibibyte_at_most(number: int) -> None:
    import memlint.cli.main
    import memlint.script  # noqa: F401  # what each would import
    from tests.hostile.running import input_of, run

    assert not run(input_of(number, 0)).fault
