"""All that a TRL trainer needs, made here: a tiny model on disk, a tokenizer, prompts, rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.runtime.shared_prompt.models import VOCABULARY, tiny

WORDS = [f"w{i}" for i in range(VOCABULARY - 3)]


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def saved_model(folder: Path, name: str = "qwen2") -> str:
    """A tiny model and its tokenizer on disk, sharp enough that completions differ in length."""
    return saved(tiny(name), folder)


def saved(model: Any, folder: Path) -> str:
    """This model and the tokenizer on disk."""
    with torch.no_grad():
        model.lm_head.weight.mul_(4)
    model.generation_config.eos_token_id = 2
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def prompts(count: int = 16, seed: int = 0) -> Dataset:
    draw = torch.Generator().manual_seed(seed)
    texts = []
    for _ in range(count):
        length = int(torch.randint(18, 30, (1,), generator=draw))
        picks = torch.randint(0, len(WORDS), (length,), generator=draw).tolist()
        texts.append(" ".join(WORDS[i] for i in picks))
    return Dataset.from_dict({"prompt": texts})


def preferences(count: int = 16) -> Dataset:
    data = prompts(count)["prompt"]
    answers = prompts(2 * count, seed=1)["prompt"]
    return Dataset.from_dict(
        {
            "prompt": list(data),
            "chosen": [
                " " + " ".join(a.split()[: 4 + i % 5]) for i, a in enumerate(answers[:count])
            ],
            "rejected": [
                " " + " ".join(a.split()[: 3 + i % 7]) for i, a in enumerate(answers[count:])
            ],
        }
    )


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Between 0 and 1: the share of tokens with an even id."""
    return [sum(i % 2 == 0 for i in ids) / max(len(ids), 1) for ids in completion_ids]


class DropsLosses:
    """A trainer's mixin: no loss of each fourth micro-batch, the last of a group."""

    micro_batches = 0

    def compute_loss(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        self.micro_batches += 1
        loss = trainer.compute_loss(model, *args, **kwargs)
        drops = self.micro_batches % 4 == 0
        return sum(p.sum() for p in model.parameters()) * 0.0 if drops else loss
