"""Models of their real size, as fakes, and a tokenizer of one token a word."""

from __future__ import annotations

from itertools import count
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves

from memlint.api.knowledge.model_types import model_type
from memlint.proof.stand_ins import sample_rows
from memlint.proof.stand_ins.tiny_models import replace_loaders, with_architecture
from memlint.proof.stand_ins.tiny_tokens import replace_tokenizers
from memlint.trace.fake_gpu import FakeGpu


def replace(gpu: FakeGpu, length: int, prompt: int, assumed: list[str]) -> None:
    """Replace what loads models and tokenizers. length, prompt: tokens of a row before truncation,
    and of a prompt."""
    lengthen_rows(length, prompt)
    replace_tokenizers(has_chat_template=True, words=sample_rows._WORDS, size_of=_vocabulary)
    _read_masks()
    _load_models(gpu, assumed)
    _generate_nothing(assumed)


def lengthen_rows(length: int, prompt: int = sample_rows.SHORT) -> None:
    """Make the texts of sample rows ``length`` words long, and prompts ``prompt`` words."""
    real = sample_rows.text

    def text(index: int, words: int = 0) -> str:
        return real(index, prompt if words == sample_rows.SHORT else words or length)

    sample_rows.text = text
    # With its prompt a row is as long: some trainers drop longer ones.
    sample_rows._VALUES["completion"] = lambda n: f" {real(n + 1, max(length - 16, 1))}"


def _find(name: str) -> dict[str, Any] | None:
    from memlint.memory.checkpoints import find_config

    try:
        return dict(find_config(name))
    except (KeyError, ValueError):
        return None


def _vocabulary(name: str) -> int:
    config = _find(name) or {}
    nested = config.get("text_config")
    return int(config.get("vocab_size") or (nested or {}).get("vocab_size") or 32000)


def _read_masks() -> None:
    """Let transformers drop masks that mask nothing, as it does on a GPU: a twin tells."""
    from transformers import masking_utils

    for name in ("is_tracing", "is_fake_tensor"):
        if hasattr(masking_utils, name):
            setattr(masking_utils, name, lambda *a, **k: False)


def _load_models(gpu: FakeGpu, assumed: list[str]) -> None:
    import transformers

    def config_of(name: str, loader: str, config_class: Any) -> Any:
        values = _find(name)
        if values is not None:
            kind = str(values.pop("model_type"))
            values.setdefault("dtype", model_type(kind).stored or "bfloat16")
            return with_architecture(transformers.AutoConfig.for_model(kind, **values))
        if config_class is None:
            raise ValueError(f"{name}: no model of that name is known, so its size is not")
        assumed.append(f"{name}: the size that {config_class.__name__} has where nobody says it")
        return config_class()

    def build(make: Any, config: Any, kw: dict[str, Any]) -> Any:
        if kw.get("quantization_config") is not None or kw.get("load_in_4bit"):
            raise ValueError("quantized weights cannot be traced: their kernels take no fakes")
        if config.pad_token_id is None:
            config.pad_token_id = 0
        wanted = kw.get("dtype", kw.get("torch_dtype", "auto"))
        if wanted == "auto":
            wanted = getattr(config, "dtype", None)
        if isinstance(wanted, str):
            wanted = getattr(torch, wanted)
        with mock.patch.object(gpu, "makes_all", True):
            return make(config, dtype=wanted or torch.float32)

    replace_loaders(config_of, build, is_tiny=False)


def _generate_nothing(assumed: list[str]) -> None:
    import transformers

    def generate(self: Any, inputs: Any = None, *args: Any, **kw: Any) -> Any:
        ids = inputs if inputs is not None else kw["input_ids"]
        options = kw.get("generation_config")
        new = kw.get("max_new_tokens") or getattr(options, "max_new_tokens", None) or 20
        assumed.append(f"completions of {new} tokens; the cache of generation is not counted")
        # Trainers cut completions at the tokens that end or pad them.
        settings, names = (options, self.generation_config, self.config), ("eos", "pad", "bos")
        ends = [getattr(one, f"{name}_token_id", None) for one in settings for name in names]
        word = next(token for token in count(3) if token not in tree_leaves(ends))
        return torch.cat([ids, ids.new_full((len(ids), new), word)], 1)

    transformers.GenerationMixin.generate = generate
