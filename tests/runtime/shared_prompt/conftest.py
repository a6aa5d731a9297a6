"""A tiny model on disk, and prompts of any length kept, for the tests that ask for them."""

from __future__ import annotations

import pytest
from memlint_runtime.shared_prompt import kept

from tests.runtime.shared_prompt.training import saved_model


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def _short_prompts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MIN_KEPT_TOKENS", 1)
