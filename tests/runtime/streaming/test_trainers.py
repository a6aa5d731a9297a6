"""TRL's trainers and ours over a streamed base: the curves of resident runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from memlint_runtime import fuse_trl_losses, stream_frozen_weights
from memlint_runtime.trl import GRPOTrainer
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, set_seed
from trl import DPOConfig, DPOTrainer, GRPOConfig, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

from tests.runtime.shared_prompt.training import (
    preferences,
    prompts,
    reward,
    saved_model,
    tokenizer,
)
from tests.runtime.streaming.schedulers import SCHEDULERS

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
    pytest.mark.usefixtures("poisoned"),
]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_model(tmp_path_factory.mktemp("model"))


def _data(kind: str) -> Dataset:
    if kind == "dpo":
        return preferences()
    if kind == "kto":
        rows = preferences()
        return Dataset.from_dict(
            {
                "prompt": rows["prompt"],
                "completion": rows["chosen"],
                "label": [number % 2 == 0 for number in range(len(rows))],
            }
        )
    if kind == "sft":
        return Dataset.from_dict({"text": prompts()["prompt"]})
    return prompts()


TRAINERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sft": (SFTTrainer, SFTConfig, {"packing": False}),
    "dpo": (DPOTrainer, DPOConfig, {}),
    "kto": (KTOTrainer, KTOConfig, {}),
    "grpo": (
        GRPOTrainer,
        GRPOConfig,
        {"num_generations": 4, "max_completion_length": 10, "beta": 0.04, "num_iterations": 2},
    ),
}


def curve(
    kind: str,
    path: str,
    folder: Path,
    *,
    scheduler: str | None,
    fused: bool,
    rounds: int = 1,
    wraps: bool = False,
) -> Any:
    """Losses and trained weights; `rounds` trainers one after another over one model.

    wraps: whether the trainer makes the adapters, over a base that streams already.
    """
    set_seed(0)
    trainer_type, config, options = TRAINERS[kind]
    model = AutoModelForCausalLM.from_pretrained(path)
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    if not wraps:
        model = get_peft_model(model, lora)
    streamed = None
    if scheduler is not None:
        if wraps:
            model.requires_grad_(False)  # as PEFT does
        streamed = stream_frozen_weights(model, copies=SCHEDULERS[scheduler](), min_bytes=256)
    args = config(
        output_dir=str(folder), max_steps=3, per_device_train_batch_size=8, logging_steps=1,
        report_to=[], learning_rate=1e-2, save_strategy="no", use_cpu=True, bf16=False,
        disable_tqdm=True, **options,
    )  # fmt: skip
    more = {"reward_funcs": reward} if kind == "grpo" else {}
    if wraps:
        more["peft_config"] = lora
    losses = []
    for _ in range(rounds):
        trainer = trainer_type(
            model=model, args=args, train_dataset=_data(kind), processing_class=tokenizer(), **more
        )
        if fused:
            fuse_trl_losses(trainer)
        trainer.train()
        model = trainer.model
        losses += [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if streamed is not None:
        assert streamed.ring.fetches > 10
        assert streamed.ring.resident_bytes == 0
    weights = [p.detach().clone() for p in model.parameters() if p.requires_grad]
    return losses, weights


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("kind", "fused"),
    [("sft", False), ("dpo", False), ("dpo", True), ("kto", False), ("grpo", False)],
)
def test_trainers(kind: str, fused: bool, model_path: str, tmp_path: Path) -> None:
    expected, wanted = curve(kind, model_path, tmp_path, scheduler=None, fused=fused)
    for scheduler in SCHEDULERS:
        losses, weights = curve(kind, model_path, tmp_path, scheduler=scheduler, fused=fused)
        assert losses == expected
        assert all(torch.equal(one, other) for one, other in zip(weights, wanted, strict=True))


@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["sft", "dpo", "kto"])
def test_a_trainer_that_makes_the_adapters(kind: str, model_path: str, tmp_path: Path) -> None:
    """`peft_config`: the base streams before the trainer wraps it."""
    runs = [
        curve(kind, model_path, tmp_path, scheduler=scheduler, fused=False, wraps=True)
        for scheduler in (None, "at the last moment")
    ]
    (expected, wanted), (losses, weights) = runs
    assert losses == expected
    assert len(weights) == len(wanted) > 0
    assert all(torch.equal(one, other) for one, other in zip(weights, wanted, strict=True))


def test_two_trainers_over_one_model(model_path: str, tmp_path: Path) -> None:
    runs = [
        curve("sft", model_path, tmp_path, scheduler=scheduler, fused=False, rounds=2)
        for scheduler in (None, "at the last moment")
    ]
    (expected, wanted), (losses, weights) = runs
    assert len(losses) == 6
    assert losses == expected
    assert all(torch.equal(one, other) for one, other in zip(weights, wanted, strict=True))
