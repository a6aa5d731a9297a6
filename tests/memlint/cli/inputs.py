"""Files and standard input for a command line."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest


def write(name: str, data: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(data)))
