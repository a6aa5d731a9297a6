"""Training runs of tiny models through transformers and TRL, with and without the fused losses."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from memlint_runtime.losses import fuse_causal_lm_loss, fuse_trl_losses
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Trainer, TrainingArguments, set_seed

from tests.runtime.losses.models import VOCABULARY, tiny_model

WORDS = [f"w{number}" for number in range(VOCABULARY - 4)]


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Every word a token; the first four ids are special."""
    names = ["<pad>", "<bos>", "<eos>", "<unk>", *WORDS]
    model = WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )


def _text(source: random.Random, least: int, most: int) -> str:
    return " ".join(source.choices(WORDS, k=source.randint(least, most)))


def _rows(kind: str, count: int = 64) -> Dataset:
    source = random.Random(3)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        row: dict[str, Any] = {"prompt": _text(source, 2, 5)}
        if kind in ("dpo", "orpo", "cpo"):
            row |= {"chosen": " " + _text(source, 2, 8), "rejected": " " + _text(source, 2, 8)}
        elif kind == "kto":
            row |= {"completion": " " + _text(source, 2, 8), "label": number % 2 == 0}
        rows.append(row)
    return Dataset.from_list(rows)


def _arguments(folder: Path, steps: int) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "seed": 0,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def _curve(trainer: Any) -> list[float]:
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def train_trainer(folder: Path, steps: int, *, fused: bool) -> list[float]:
    """`transformers.Trainer` with accumulation, so that `num_items_in_batch` matters."""
    set_seed(0)
    source = random.Random(3)
    starts = [source.randrange(4, VOCABULARY - 12) for _ in range(64)]
    ids = [list(range(start, start + 12)) for start in starts]
    rows = Dataset.from_list([{"input_ids": row, "labels": [-100, *row[1:]]} for row in ids])
    model = tiny_model("gemma2_softcap")
    arguments = TrainingArguments(**_arguments(folder, steps), gradient_accumulation_steps=2)
    trainer = Trainer(model, arguments, train_dataset=rows)
    with fuse_causal_lm_loss(model) if fused else contextlib.nullcontext():
        return _curve(trainer)


def train_trl(kind: str, folder: Path, steps: int, *, fused: bool) -> list[float]:
    """A TRL trainer: its own loss, or the tiles."""
    set_seed(0)
    model, reference = tiny_model("qwen2_tied"), tiny_model("qwen2_tied")
    shared: dict[str, Any] = _arguments(folder, steps) | {"gradient_checkpointing": False}
    tokenizer, rows = tiny_tokenizer(), _rows(kind)
    if kind == "dpo":
        from trl import DPOConfig, DPOTrainer

        trainer: Any = DPOTrainer(
            model,
            reference,
            DPOConfig(**shared, max_length=32, beta=0.5),
            train_dataset=rows,
            processing_class=tokenizer,
        )
    elif kind == "kto":
        from trl import KTOConfig, KTOTrainer

        trainer = KTOTrainer(
            model,
            reference,
            KTOConfig(**shared, max_length=32, beta=0.5),
            train_dataset=rows,
            processing_class=tokenizer,
        )
    elif kind == "grpo":
        from trl import GRPOConfig, GRPOTrainer

        shared["learning_rate"] = 1e-2
        # It loads its reference from where the model came from.
        model.save_pretrained(folder / "start")
        model.config._name_or_path = str(folder / "start")
        trainer = GRPOTrainer(
            model,
            _reward,
            GRPOConfig(
                **shared,
                num_generations=4,
                max_completion_length=6,
                beta=0.1,
                num_iterations=2,
                temperature=0.9,
            ),
            train_dataset=rows,
            processing_class=tokenizer,
        )
    elif kind == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        trainer = ORPOTrainer(
            model,
            ORPOConfig(**shared, max_length=32),
            train_dataset=rows,
            processing_class=tokenizer,
        )
    else:
        from trl.experimental.cpo import CPOConfig, CPOTrainer

        trainer = CPOTrainer(
            model,
            CPOConfig(**shared, max_length=32),
            train_dataset=rows,
            processing_class=tokenizer,
        )
    with fuse_trl_losses(trainer) if fused else contextlib.nullcontext():
        return _curve(trainer)


def _reward(completions: list[str], **_: Any) -> list[float]:
    """Words of even number are good."""
    return [
        sum(int(word[1:]) % 2 == 0 for word in text.split() if word.startswith("w"))
        / (len(text.split()) or 1)
        for text in completions
    ]


def deviation(left: list[float], right: list[float]) -> float:
    """The largest difference of two curves."""
    return float((torch.tensor(left) - torch.tensor(right)).abs().max())
