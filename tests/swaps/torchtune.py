"""torchtune's own recipes on a tiny Llama, as they are and with our parts in the place of theirs.

The recipe, its configuration, data set, collator, sampler, optimizer and schedule are torchtune's;
model, tokenizer and rows are small. Swapped are the packed data set and the loss. Needs torchtune
and torchao (0.6.1 and 0.9.0; torchtune's source of 0.7 runs as well) beside memlint.

    pip install --no-deps torchtune==0.6.1 torchao==0.9.0 torchdata omegaconf \\
        antlr4-python3-runtime==4.9.3 sentencepiece tiktoken blobfile kagglehub
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

STEPS = 10
_LENGTH = 96
_SMALL: dict[str, Any] = {
    "vocab_size": 260,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "embed_dim": 64,
    "max_seq_len": _LENGTH,
}
_SWAPS = {
    "packed samples": ("samples",),
    "loss": ("loss",),
    "packed samples and loss": ("samples", "loss"),
}


# -- what the configuration names: small parts, and the swapped data set ---------------------------


def tied_llama() -> Any:
    from torchtune.models.llama3_2 import llama3_2

    return llama3_2(**_SMALL)


def lora_llama(**options: Any) -> Any:
    from torchtune.models.llama3 import lora_llama3

    return lora_llama3(**{**options, "lora_rank": 4, "lora_alpha": 8}, **_SMALL)


class Letters:
    """A tokenizer of bytes, by torchtune's protocol."""

    pad_id, bos_id, eos_id = 0, 1, 2

    def __init__(self, max_seq_len: int = _LENGTH) -> None:
        self.max_seq_len = max_seq_len

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True, **_: Any) -> list[int]:
        ids = [3 + byte for byte in text.encode()]
        return [self.bos_id] * add_bos + ids + [self.eos_id] * add_eos

    def tokenize_messages(self, messages: list[Any], **_: Any) -> tuple[list[int], list[bool]]:
        from torchtune.modules.transforms.tokenizers import tokenize_messages_no_special_tokens

        ids, mask = tokenize_messages_no_special_tokens(
            tokenizer=self, messages=messages, bos_id=self.bos_id, eos_id=self.eos_id
        )
        return ids, mask

    def __call__(self, sample: Any, inference: bool = False) -> Any:
        tokens, mask = self.tokenize_messages(sample.pop("messages"))
        return {**sample, "tokens": tokens, "mask": mask}


def samples(tokenizer: Any, *, ours: bool, data_files: str, packed: bool = True) -> Any:
    """torchtune's data set of instructions, packed by torchtune or by us."""
    from torchtune.datasets import PackedDataset, instruct_dataset

    rows = instruct_dataset(tokenizer, source="json", data_files=data_files, split="train")
    if not ours:
        return PackedDataset(rows, max_seq_len=tokenizer.max_seq_len)
    from memlint_runtime.packing import PackedDataset as OurPackedDataset

    # torchtune's order, so that steps can be compared one by one.
    return OurPackedDataset(rows, max_seq_len=tokenizer.max_seq_len, strategy="next_fit")


class Record:
    """A metric logger that remembers."""

    def __init__(self, **_: Any) -> None:
        self.steps: list[dict[str, float]] = []

    def log_config(self, config: Any) -> None:
        """Nothing to keep."""

    def log_dict(self, payload: dict[str, Any], step: int) -> None:
        self.steps.append({name: float(payload[name]) for name in ("loss", "grad_norm")})

    def close(self) -> None:
        """Nothing to close."""


# -- running a recipe ------------------------------------------------------------------------------


def _recipes() -> Path:
    import torchtune

    return Path(torchtune.__file__).parents[1] / "recipes"


def _recipe_class(name: str, kind: str) -> Any:
    # The folder refuses to be imported as a package: recipes are run, or copied.
    spec = importlib.util.spec_from_file_location(name, _recipes() / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kind)


def _write_inputs(folder: Path, model: Any) -> None:
    source = random.Random(0)
    words = ["one", "two", "three", "four", "five", "six"]
    rows = [
        {
            "input": " ".join(source.choices(words, k=source.randint(1, 5))),
            "output": " ".join(source.choices(words, k=source.randint(1, 6))),
        }
        for _ in range(120)
    ]
    (folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    torch.save(model.state_dict(), folder / "model.pt")


def _configuration(name: str, folder: Path, model: str, swapped: tuple[str, ...]) -> Any:
    from omegaconf import OmegaConf

    here = __name__
    config = OmegaConf.load(_recipes() / "configs" / name)
    changed: dict[str, Any] = {
        "device": "cpu",
        "dtype": "fp32",
        "seed": 1,
        "epochs": 1,
        "batch_size": 2,
        "gradient_accumulation_steps": 1,
        "max_steps_per_epoch": STEPS,
        "compile": False,
        "clip_grad_norm": 1.0,
        "optimizer_in_bwd": False,
        "log_every_n_steps": 1,
        "log_peak_memory_stats": False,
        "output_dir": str(folder) + "_out",
        "tokenizer": {"_component_": f"{here}.Letters"},
        "metric_logger": {"_component_": f"{here}.Record"},
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": 3e-3},
        "dataset": {
            "_component_": f"{here}.samples",
            "ours": "samples" in swapped,
            "data_files": str(folder / "rows.json"),
            "packed": True,
        },
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            "checkpoint_dir": str(folder),
            "checkpoint_files": ["model.pt"],
            "output_dir": str(folder) + "_out",
            "model_type": "LLAMA3",
        },
        "profiler": {
            "_component_": "torchtune.training.setup_torch_profiler",
            "enabled": False,
            "output_dir": str(folder) + "_out",
        },
    }
    for key, value in changed.items():
        config[key] = value
    config.model["_component_"] = f"{here}.{model}"
    if "loss" in swapped:
        config.loss = {"_component_": "memlint_runtime.LinearCrossEntropyLoss"}
    return config


def _train(recipe: Any, config: Any) -> list[dict[str, float]]:
    running = recipe(cfg=config)
    running.setup(cfg=config)
    loss = running._loss_fn
    # Recipes of torchtune 0.7 make this call themselves; in a copy of one of 0.6 it is the line to
    # add.
    by_itself = hasattr(importlib.import_module("torchtune.modules.loss"), "SFTLoss")
    if type(loss).__module__.startswith("memlint_runtime") and not by_itself:
        loss.set_model_output(running._model)
    running.train()
    steps: list[dict[str, float]] = running._metric_logger.steps
    running.cleanup()
    return steps


RECIPES: dict[str, tuple[str, str, str, str]] = {
    "full fine-tuning, tied head": (
        "full_finetune_single_device",
        "FullFinetuneRecipeSingleDevice",
        "llama3_2/1B_full_single_device.yaml",
        "tied_llama",
    ),
    "LoRA": (
        "lora_finetune_single_device",
        "LoRAFinetuneRecipeSingleDevice",
        "llama3/8B_lora_single_device.yaml",
        "lora_llama",
    ),
}


def compare(folder: Path) -> Iterator[tuple[str, list[dict[str, float]], list[dict[str, float]]]]:
    """For each recipe and swap its name, the steps of torchtune alone, and those with ours."""
    import torchtune.models.llama3 as llama3

    for title, (name, kind, config, model) in RECIPES.items():
        place = folder / name
        place.mkdir()
        torch.manual_seed(0)
        _write_inputs(place, tied_llama() if model == "tied_llama" else llama3.llama3(**_SMALL))
        recipe = _recipe_class(name, kind)
        theirs = _train(recipe, _configuration(config, place, model, ()))
        for swap, swapped in _SWAPS.items():
            ours = _train(recipe, _configuration(config, place, model, swapped))
            yield f"torchtune, {title}: {swap}", theirs, ours
