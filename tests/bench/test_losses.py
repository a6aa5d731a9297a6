"""The memory table at a small size: ours within floor and declared workspace, plain far above."""

from __future__ import annotations

import pytest
import torch
from memlint_runtime.losses import default_workspace_bytes

from tests.bench import losses


@pytest.mark.parametrize("head_trained", [True, False])
def test_ours_keeps_within_floor_and_workspace(
    head_trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TOKENS", 2048), ("WIDTH", 512), ("VOCABULARY", 64_000)):
        monkeypatch.setattr(losses, name, value)
    floor = losses.gradient_bytes(head_trained=head_trained)
    declared = default_workspace_bytes(losses.TOKENS, losses.WIDTH, torch.bfloat16)
    logits = losses.TOKENS * losses.VOCABULARY * 4
    for name, loss in losses.LOSSES.items():
        ours = losses.peak_bytes(
            lambda inputs, loss=loss: loss(losses.ours(inputs)), head_trained=head_trained
        )
        assert floor <= ours <= floor + declared, name
    plain = losses.peak_bytes(
        lambda inputs: losses.mean_loss(losses.plain(inputs)), head_trained=head_trained
    )
    assert plain > 2 * logits
