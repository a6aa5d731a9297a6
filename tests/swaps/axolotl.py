"""axolotl's own SFT run on a tiny Llama, as it is and with our parts in the place of its own.

A recipe in YAML goes through axolotl's validation, tokenization, loader, builder and trainer. As it
is: its multipack sampler and collator, rows kept apart by stock sdpa, its chunked cross entropy.
Swapped are the samples (`pack_dataset`, `PaddingFreeCollator`), the loss (`fuse`) and, with them,
the attention (`use_variable_length_attention`). Rows are read in order (`curriculum_sampling`), as
the order in which they come is what decides how they are packed.

Needs axolotl 0.19.0 and trl 1.8.0 beside memlint and what transformers needs:

    pip install --no-deps axolotl==0.19.0 trl==1.8.0 axolotl-contribs-lgpl axolotl-contribs-mit \\
        addict fire colorama python-dotenv art requests urllib3 charset-normalizer certifi idna \\
        numba llvmlite einops evaluate posthog distro backoff schedulefree termcolor wandb \\
        fastcore sentry-sdk gitpython gitdb smmap protobuf scipy optimum mistral-common \\
        opentelemetry-api importlib-metadata platformdirs tensorboard

Stubbed is a processor of speech that axolotl imports (Voxtral's); it computes nothing here.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEPS = 10
_LENGTH = 96
_WORDS = [f"w{number}" for number in range(60)]
_SWAPS = {
    "packed samples": ("samples",),
    "loss": ("loss",),
    "packed samples, attention and loss": ("samples", "attention", "loss"),
}


def _stub_speech() -> None:
    try:
        importlib.import_module("transformers.models.voxtral").VoxtralProcessor  # noqa: B018
    except ImportError:
        stub = types.ModuleType("transformers.models.voxtral")
        vars(stub)["VoxtralProcessor"] = type("VoxtralProcessor", (), {})
        sys.modules[stub.__name__] = stub


def _write_inputs(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    known = {word: index for index, word in enumerate([*special, *_WORDS])}
    words = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=_LENGTH,
    )
    tokenizer.save_pretrained(folder / "model")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(known),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    source = random.Random(0)
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for _ in range(120):
            prompt, answer = (
                " ".join(source.choices(_WORDS, k=source.randint(3, n))) for n in (9, 30)
            )
            parts = [{"label": False, "text": prompt}, {"label": True, "text": " " + answer}]
            file.write(json.dumps({"segments": parts}) + "\n")


def _recipe(folder: Path, name: str) -> Path:
    import yaml

    recipe = {
        "base_model": str(folder / "model"),
        "datasets": [
            {"path": str(folder / "rows.jsonl"), "ds_type": "json", "type": "input_output"}
        ],
        "dataset_prepared_path": str(folder / f"prepared_{name}"),
        "output_dir": str(folder / f"out_{name}"),
        "val_set_size": 0,
        "sequence_len": _LENGTH,
        "sample_packing": True,
        "pad_to_sequence_len": False,
        "curriculum_sampling": True,
        "attn_implementation": "sdpa",
        "chunked_cross_entropy": True,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "max_steps": STEPS,
        "num_epochs": 1,
        "optimizer": "adamw_torch",
        "learning_rate": 3e-3,
        "lr_scheduler": "constant",
        "max_grad_norm": 1.0,
        "bf16": False,
        "fp16": False,
        "tf32": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": 1,
        "dataset_num_proc": 1,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def _swap(trainer: Any, swapped: tuple[str, ...]) -> None:
    from memlint_runtime import (
        PaddingFreeCollator,
        fuse,
        pack_dataset,
        use_variable_length_attention,
    )

    if "samples" in swapped:
        # In the order of the rows, as axolotl's sampler packs them.
        trainer.train_dataset = pack_dataset(
            trainer.train_dataset,
            _LENGTH,
            strategy="first_fit",
            columns=["input_ids", "labels"],
            progress=False,
        )
        trainer.data_collator = trainer.train_data_collator = PaddingFreeCollator()
        trainer.args.sample_packing = False
        trainer.args.remove_unused_columns = False
    if "attention" in swapped:
        use_variable_length_attention(trainer.model)
    if "loss" in swapped:
        fuse(trainer)


def _train(path: Path, swapped: tuple[str, ...]) -> list[dict[str, float]]:
    from axolotl.cli.config import load_cfg
    from axolotl.common.datasets import load_datasets
    from axolotl.train import setup_model_and_trainer

    config = load_cfg(str(path))
    trainer, *_ = setup_model_and_trainer(config, load_datasets(cfg=config))
    found: list[float] = []
    own = trainer.compute_loss

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        loss = own(*args, **kwargs)
        found.append(float(loss))
        return loss

    # What is logged is rounded.
    trainer.compute_loss = compute_loss
    _swap(trainer, swapped)
    trainer.train()
    norms = [float(one["grad_norm"]) for one in trainer.state.log_history if "grad_norm" in one]
    return [{"loss": loss, "grad_norm": norm} for loss, norm in zip(found, norms, strict=True)]


def compare(folder: Path) -> Iterator[tuple[str, list[dict[str, float]], list[dict[str, float]]]]:
    """For each swap its name, the steps of axolotl alone, and those with ours."""
    for name in ("AXOLOTL_DO_NOT_TRACK", "DO_NOT_TRACK", "HF_HUB_OFFLINE", "WANDB_DISABLED"):
        os.environ[name] = "1"
    _stub_speech()
    _write_inputs(folder)
    theirs = _train(_recipe(folder, "theirs"), ())
    for number, (swap, swapped) in enumerate(_SWAPS.items()):
        yield f"axolotl, SFT: {swap}", theirs, _train(_recipe(folder, f"ours_{number}"), swapped)
