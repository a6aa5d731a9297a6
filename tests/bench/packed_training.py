"""Fifty steps of a tiny model on packed text: packed by TRL, by us, and in a plain Trainer.

    python -m tests.bench.packed_training [--steps 50]

The text is this repository's own source, one document per blank-line block, a token per byte. All
runs share model, seed, rows of 512 tokens and batch size. The first two share their batches, packed
by TRL, one with stock sdpa's mask and one with our attention, so their losses must agree; and so
must those of the last two, packed by us. Between the pairs other documents meet in a batch.
The held-out loss is taken on padded batches with stock attention, the same for all.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from memlint_runtime import pack_dataset, train_without_padding
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from trl import SFTConfig, SFTTrainer

CAPACITY = 512
HELD_OUT = 64


def byte_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, "<eos>": 1, **{c: i + 2 for i, c in enumerate(alphabet)}}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")


def documents(tokenizer: PreTrainedTokenizerFast) -> Dataset:
    root = Path(__file__).resolve().parents[2]
    sources = sorted((root / "runtime").rglob("*.py")) + sorted((root / "memlint").rglob("*.py"))
    blocks = [b for source in sources for b in source.read_text().split("\n\n") if len(b) > 40]
    ids = [[*tokenizer(block).input_ids[: CAPACITY - 1], 1] for block in blocks]
    return Dataset.from_dict({"input_ids": ids, "labels": ids}).shuffle(seed=0)


def tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CAPACITY,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def arguments(folder: str, steps: int, seed: int) -> dict[str, Any]:
    return {
        "output_dir": folder,
        "max_steps": steps,
        "per_device_train_batch_size": 4,
        "learning_rate": 3e-3,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "seed": seed,
    }


@torch.no_grad()
def held_out_loss(model: Any, rows: Dataset) -> float:
    stock = tiny_model()
    stock.load_state_dict(model.state_dict())
    stock.eval()
    total, tokens = 0.0, 0
    for row in rows:
        ids = torch.tensor(row["input_ids"])[None]
        total += float(stock(ids, labels=ids).loss) * (ids.shape[1] - 1)
        tokens += ids.shape[1] - 1
    return total / tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="Order of the rows.")
    options = parser.parse_args()
    steps = options.steps
    warnings.simplefilter("ignore")
    tokenizer = byte_tokenizer()
    data = documents(tokenizer)
    train = data.select(range(HELD_OUT, len(data)))
    held_out = data.select(range(HELD_OUT))
    packed = pack_dataset(train, CAPACITY, progress=False)
    print(f"{len(train)} documents, {len(packed)} rows of {CAPACITY} tokens packed by us")
    folder = tempfile.mkdtemp()
    common = arguments(folder, steps, options.seed)
    start = tiny_model()
    by_trl = SFTTrainer(
        copy.deepcopy(start),
        SFTConfig(**common, packing=True, max_length=CAPACITY),
        train_dataset=train,
        processing_class=tokenizer,
    )
    by_us = SFTTrainer(
        copy.deepcopy(start),
        SFTConfig(**common, max_length=None),
        train_dataset=packed,
        processing_class=tokenizer,
    )
    same_rows = SFTTrainer(
        copy.deepcopy(start),
        SFTConfig(**common, max_length=None),
        train_dataset=by_trl.train_dataset,
        processing_class=tokenizer,
    )
    plain = Trainer(copy.deepcopy(start), TrainingArguments(**common), train_dataset=packed)
    runs = {
        "SFT, packed by TRL": by_trl,
        "TRL's rows, our path": train_without_padding(same_rows),
        "SFT, packed by us": train_without_padding(by_us),
        "plain Trainer, ours": train_without_padding(plain),
    }
    losses, seconds, final = {}, {}, {}
    for name, trainer in runs.items():
        result = trainer.train()
        losses[name] = [e["loss"] for e in trainer.state.log_history if "loss" in e]
        seconds[name] = result.metrics["train_runtime"]
        final[name] = held_out_loss(trainer.model, held_out)
    print(f"{'step':>9}", *(f"{name:>20}" for name in runs))
    for step in [1, *range(10, steps + 1, 10)]:
        print(f"{step:>9}", *(f"{losses[name][step - 1]:20.4f}" for name in runs))
    print(f"{'held out':>9}", *(f"{final[name]:20.4f}" for name in runs))
    print(f"{'seconds':>9}", *(f"{seconds[name]:20.1f}" for name in runs))


if __name__ == "__main__":
    main()
