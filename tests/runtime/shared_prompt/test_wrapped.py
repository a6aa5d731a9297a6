"""Two processes on the CPU: gradients under DDP and FSDP2, and a trainer under both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.ranks import free_port, run_ranks
from tests.runtime.shared_prompt import worker
from tests.runtime.shared_prompt.training import saved_model


def launch(what: str, folder: Path) -> Any:
    run_ranks(worker.main, what, folder, free_port())
    return json.loads((folder / f"{what}.json").read_text())


def test_gradients_under_ddp_and_fsdp2(tmp_path: Path) -> None:
    errors = launch("models", tmp_path)
    assert len(errors) == 8
    assert max(errors.values()) <= 1, errors


@pytest.mark.matrix
def test_trainers(tmp_path: Path) -> None:
    saved_model(tmp_path / "model")
    steps = launch("trainers", tmp_path)
    assert len(steps) == 5
    for wrapper, (theirs, ours) in steps.items():
        assert len(theirs) == len(ours) > 0, wrapper
        for wanted, found in zip(theirs, ours, strict=True):
            for name in ("loss", "reward", "grad_norm", "entropy"):
                if name in wanted:  # rewards are logged where completions are drawn
                    close = pytest.approx(wanted[name], rel=1e-4, abs=1e-4)
                    assert found[name] == close, (wrapper, name)
            assert found["shared_prompt/rho"] > 1.2, wrapper
