"""Offloading and stepping in backward under transformers' Trainer and TRL's trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from memlint_runtime import undo
from memlint_runtime.checkpoint import checkpoint_activations
from memlint_runtime.offload import ActivationOffload, offload_activations
from memlint_runtime.optim import OptimizerInBackward
from memlint_runtime.padding_free_trainers import train_without_padding
from memlint_runtime.trainer_adapters import (
    batch_trainer_by_tokens,
    offload_trainer_activations,
    step_trainer_in_backward,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer, SFTConfig, SFTTrainer

# TRL calls transformers by names and with arguments deprecated since 5.23.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::trl.import_utils.TRLExperimentalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:(torch|transformers|trl|accelerate)"),
]

HERE = {"device": "cpu", "min_bytes": 256}
COMMON: dict[str, Any] = {
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "report_to": "none",
    "save_strategy": "no",
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(61))]
    raw = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        pad_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def text(column: str) -> Dataset:
    return Dataset.from_dict({column: ["w1 w2 w3 w4 w5", "w6 w7 w8 w9 w10 w11"] * 8})


def reward(completions: list[str], **ignored: Any) -> list[float]:
    return [float(len(set(completion.split()))) for completion in completions]


def sft(path: Path, **options: Any) -> Trainer:
    config = SFTConfig(output_dir=str(path), **{**COMMON, "use_liger_kernel": False, **options})
    return SFTTrainer(
        tiny_llama(), config, train_dataset=text("text"), processing_class=tokenizer()
    )


def grpo(path: Path, **options: Any) -> Trainer:
    config = GRPOConfig(
        output_dir=str(path), num_generations=4, max_completion_length=8, **{**COMMON, **options}
    )
    return GRPOTrainer(
        tiny_llama(), reward, config, train_dataset=text("prompt"), processing_class=tokenizer()
    )


def rloo(path: Path, **options: Any) -> Trainer:
    config = RLOOConfig(
        output_dir=str(path),
        num_generations=2,
        max_completion_length=8,
        beta=0.0,
        **{**COMMON, **options},
    )
    return RLOOTrainer(
        tiny_llama(), reward, config, train_dataset=text("prompt"), processing_class=tokenizer()
    )


def online_dpo(path: Path, **options: Any) -> Trainer:
    from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

    config = OnlineDPOConfig(output_dir=str(path), max_new_tokens=8, **{**COMMON, **options})
    return OnlineDPOTrainer(
        model=tiny_llama(),
        reward_funcs=reward,
        args=config,
        train_dataset=text("prompt"),
        processing_class=tokenizer(),
    )


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [p.detach().clone() for p in trainer.model.parameters()]


@pytest.mark.parametrize("make", [sft, grpo, rloo, online_dpo])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_trl_trainers_learn_the_same_with_activations_on_the_host(
    make: Any, checkpointed: bool, tmp_path: Path
) -> None:
    plain = make(tmp_path / "plain", gradient_checkpointing=checkpointed)
    start = weights(plain)
    torch.manual_seed(5)
    plain.train()
    trainer = make(tmp_path / "offloaded", gradient_checkpointing=checkpointed)
    offload = offload_trainer_activations(trainer, **HERE)
    torch.manual_seed(5)
    trainer.train()
    assert offload.sent_bytes > 0
    assert offload.pool.used_bytes == 0
    for one, other in zip(weights(plain), weights(trainer), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(start[0], weights(trainer)[0])


@pytest.mark.parametrize("make", [grpo, online_dpo])
def test_checkpointing_with_offload_survives_trl(make: Any, tmp_path: Path) -> None:
    """TRL switches checkpointing off for generation and on again with its own options."""
    plain = make(tmp_path / "plain", gradient_checkpointing=True)
    torch.manual_seed(5)
    plain.train()
    trainer = make(tmp_path / "ours", gradient_checkpointing=True)
    setting = checkpoint_activations(trainer.model, offload=offload_activations(**HERE))
    assert isinstance(setting.offload, ActivationOffload)
    sent = []
    step = trainer.training_step

    def counted(*args: Any, **kwargs: Any) -> Any:
        before = setting.offload.sent_bytes
        result = step(*args, **kwargs)
        sent.append(setting.offload.sent_bytes - before)
        return result

    trainer.training_step = counted
    torch.manual_seed(5)
    trainer.train()
    assert len(sent) == 2
    assert min(sent) > 0
    for one, other in zip(weights(plain), weights(trainer), strict=True):
        assert torch.equal(one, other)


def test_offloading_twice_or_over_a_changed_step_is_refused(tmp_path: Path) -> None:
    trainer = sft(tmp_path)
    offload_trainer_activations(trainer, **HERE)
    with pytest.raises(ValueError, match="already called on this trainer"):
        offload_trainer_activations(trainer, **HERE)
    trainer = sft(tmp_path)
    trainer.args.activation_offloading = True
    with pytest.raises(ValueError, match="SFTTrainer offloads activations already"):
        offload_trainer_activations(trainer, **HERE)

    class Changed(Trainer):
        def training_step(self, batch: Any) -> Any:  # type: ignore[override]
            raise NotImplementedError

    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(ValueError, match=r"Changed has training_step\(batch\)"):
        offload_trainer_activations(Changed(tiny_llama(), args), **HERE)


@pytest.mark.parametrize(
    ("adapt", "otherwise"),
    [
        (lambda trainer: batch_trainer_by_tokens(trainer, 100), "TokenBudgetSampler"),
        (offload_trainer_activations, r"offload_activations\(model\)"),
        (step_trainer_in_backward, "OptimizerInBackward"),
        (train_without_padding, "PaddingFreeCollator"),
    ],
)
def test_what_is_no_trainer_is_named(adapt: Any, otherwise: str) -> None:
    takes = "takes a transformers or TRL trainer, got"
    with pytest.raises(ValueError, match=f"{takes} Linear. In a loop of your own use {otherwise}"):
        adapt(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=f"{takes} the class Trainer itself"):
        adapt(Trainer)


def test_stepping_in_backward_learns_the_same(tmp_path: Path) -> None:
    plain = sft(tmp_path / "plain", max_grad_norm=0.0)
    plain.train()
    trainer = sft(tmp_path / "inside", max_grad_norm=0.0)
    handle = step_trainer_in_backward(trainer)
    assert isinstance(handle.result, OptimizerInBackward)
    assert trainer.optimizer is handle.result
    trainer.train()
    for one, other in zip(weights(plain), weights(trainer), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient_accumulation_steps": 2}, "needs gradient_accumulation_steps=1, got 2"),
        ({"max_grad_norm": 1.0}, r"cannot clip by the global norm \(max_grad_norm=1.0\)"),
        ({"auto_find_batch_size": True}, "set auto_find_batch_size=False"),
    ],
)
def test_options_that_stepping_in_backward_cannot_serve(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    trainer = sft(tmp_path, **{"max_grad_norm": 0.0, **options})
    with pytest.raises(ValueError, match=message):
        step_trainer_in_backward(trainer)
    trainer = sft(tmp_path, max_grad_norm=0.0)
    trainer.args.fp16 = True
    with pytest.raises(ValueError, match="use bf16=True instead of fp16"):
        step_trainer_in_backward(trainer)


def test_batches_by_tokens(tmp_path: Path) -> None:
    ids = [[3 + (7 * i + t) % 60 for t in range(1 + i % 13)] for i in range(48)]
    batches: list[list[list[int]]] = []

    def collate(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        batches.append([row["input_ids"] for row in rows])
        width = max(len(row["input_ids"]) for row in rows)
        padded = [row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows]
        tensor = torch.tensor(padded)
        return {"input_ids": tensor, "labels": tensor.masked_fill(tensor == 0, -100)}

    options = COMMON | {"max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 2}
    config = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        vocab_size=64,
    )  # fmt: skip
    trainer = Trainer(
        LlamaForCausalLM(config), TrainingArguments(str(tmp_path), **options), collate,
        Dataset.from_dict({"input_ids": ids}),
    )  # fmt: skip
    sampler = batch_trainer_by_tokens(trainer, 40)
    trainer.train()
    assert all(sum(map(len, batch)) <= 40 for batch in batches)
    assert len(batches) % 2 == 0
    half = len(batches) // 2
    epochs = [
        sorted(row for batch in part for row in batch) for part in (batches[:half], batches[half:])
    ]
    for epoch in epochs:
        assert {tuple(row) for row in epoch} == {tuple(row) for row in ids}
        assert len(ids) <= len(epoch) <= len(ids) + 1
    assert batches[0] != batches[half]
    assert trainer.state.global_step == len(batches) // 2
    undo(trainer)
    assert "get_train_dataloader" not in vars(trainer)
    with pytest.raises(ValueError, match="more than the budget of 12"):
        batch_trainer_by_tokens(trainer, 12)
    with pytest.raises(ValueError, match="lengths has 1 entries, the training data 48 rows"):
        batch_trainer_by_tokens(trainer, 40, lengths=[3])
    trainer.train_dataset = trainer.train_dataset.to_iterable_dataset()
    with pytest.raises(ValueError, match="training data of a known length"):
        batch_trainer_by_tokens(trainer, 40)
    assert sampler.token_budget == 40
