"""The two tiers of tests, how many processes run them, and where branches are counted.

``pytest`` runs the first tier, ``pytest -m matrix`` the second, ``pytest -m ""`` both.
A test that is marked ``matrix`` runs in the second tier alone. Of a parametrized test that is
marked ``draws`` the first tier runs a draw: as many as the mark says, or, without a number, enough
to try each value of each parameter once. A test that is named by its id always runs.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

# One thread for each process: as many processes as cores run already.
os.environ.setdefault("OMP_NUM_THREADS", "1")
MOST_PROCESSES = 8  # each imports torch

# No test has a deadline: a busy machine stops any example for a second now and then.
settings.register_profile("first tier", max_examples=10, deadline=None)
settings.register_profile("everything", max_examples=100, deadline=None, derandomize=True)

HERE = Path(__file__).parent
# Tests of code whose branches nobody counts, and tests that repeat the cases of rules in another
# shape: counting doubles their time.
UNCOUNTED = tuple(
    HERE / name
    for name in (
        "bench", "gpu", "memlint/api", "memlint/memory", "memlint/parallel", "memlint/profile",
        "memlint/proof", "memlint/trace", "rules/test_all_targets.py", "rules/test_old_targets.py",
        "rules/test_previews.py", "rules/test_two_files.py", "runtime", "test_hostile.py",
        "test_two_steps.py",
    )
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks and choose how many examples each property gets."""
    config.addinivalue_line("markers", "matrix: one of many combinations; runs in the second tier")
    config.addinivalue_line("markers", "draws(count=None): the first tier runs so many of these")
    config.addinivalue_line("markers", "whole: logits that are few are computed whole")
    settings.load_profile("first tier" if config.option.markexpr else "everything")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process for each core; none but this one where single files or tests are named."""
    if config.args and all(".py" in argument for argument in config.args):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, MOST_PROCESSES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the draws of the first tier leave out."""
    groups: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("draws"):
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        mark = group[0].get_closest_marker("draws")
        drawn = draw(group, *(mark.args if mark else ()))
        for item in group:
            if item not in drawn:
                item.add_marker(pytest.mark.matrix)


def draw(group: Iterable[pytest.Function], count: int | None = None) -> list[pytest.Function]:
    """Draw from the tests of one function, by their ids: the same ones on every machine."""
    shuffled = sorted(group, key=lambda item: crc32(item.nodeid.encode()))
    if count is not None:
        return shuffled[:count]
    drawn = []
    tried: set[tuple[str, int]] = set()
    for item in shuffled:
        values = {(name, id(value)) for name, value in item.callspec.params.items()}
        if not values <= tried:
            tried |= values
            drawn.append(item)
    return drawn


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
