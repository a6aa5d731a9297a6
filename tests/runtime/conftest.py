"""Losses go tile by tile, as they do at sizes that tests have no time for."""

from __future__ import annotations

import pytest
from memlint_runtime.losses import planning


@pytest.fixture(autouse=True)
def _tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it few logits are computed whole; tests of that are marked `whole`."""
    if request.node.get_closest_marker("whole") is None:
        monkeypatch.setattr(planning, "WHOLE_BYTES", 0)
