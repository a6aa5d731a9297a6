"""Every test of the command line has rules of its own and a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memlint.fakes import install


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
