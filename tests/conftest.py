"""What all tests share: branches are counted where the linter is tested; no test has a deadline."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine stops any example for a second now and then.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

HERE = Path(__file__).parent
# Tests of code whose branches nobody counts: counting doubles their time.
UNCOUNTED = tuple(HERE / name for name in ("bench", "gpu", "runtime"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test without the trace function that counts, and put it back."""
    counting = sys.gettrace()
    if counting is not None and any(map(item.path.is_relative_to, UNCOUNTED)):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        if counting is not None:
            sys.settrace(counting)
