"""Subclasses of TRL's trainers, experimental and of one's own, beside themselves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime.trl import GRPOTrainer, share_prompts_in
from trl import DPOConfig, SFTTrainer
from trl import DPOTrainer as TrlDPOTrainer

from tests.runtime.shared_prompt.test_trainers import side_by_side, trained

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer


def test_an_experimental_trainer(model_path: str, tmp_path: Path) -> None:
    shared = share_prompts_in(GMPOTrainer)
    assert shared.__name__ == "GMPOTrainer"
    made = [
        trained(kind, GMPOConfig, model_path, tmp_path, beta=0.04, num_iterations=2)
        for kind in (GMPOTrainer, shared)
    ]
    side_by_side(*made)


class Doubled(TrlDPOTrainer):
    """A script's own: twice the loss."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        assert isinstance(loss, torch.Tensor)
        return 2 * loss


def test_a_trainer_of_one_s_own(model_path: str, tmp_path: Path) -> None:
    made = [
        trained(kind, DPOConfig, model_path, tmp_path)
        for kind in (Doubled, share_prompts_in(Doubled))
    ]
    side_by_side(*made)


def test_what_is_not_served_is_named() -> None:
    assert share_prompts_in(GRPOTrainer) is GRPOTrainer
    with pytest.raises(ValueError, match="or DPOTrainer, got SFTTrainer: it scores completions"):
        share_prompts_in(SFTTrainer)
    asynchronous = type("AsyncGRPOTrainer", (), {})
    with pytest.raises(ValueError, match="packs the tokens that its rows share by itself"):
        share_prompts_in(asynchronous)
