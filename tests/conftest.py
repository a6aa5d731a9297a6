"""What all tests share: branches are counted where the linter is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Tests of code whose branches nobody counts: counting doubles their time.
UNCOUNTED = ("bench", "gpu", "runtime", "memlint/memory", "memlint/script", "memlint/api")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("pytest_cov"):
        return
    folders = [HERE / name for name in UNCOUNTED]
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in folders):
            item.add_marker("no_cover")
