"""Tiny models with the classes that the names of checkpoints stand for."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from memlint.proof.stand_ins.sample_rows import TABLES


def with_architecture(config: Any) -> Any:
    """Return a configuration with the class and the first token that a hub's would name."""
    import transformers

    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if type(config) in mapping and not config.architectures:
            config.architectures = [mapping[type(config)].__name__]
    return config


def _shrunk(config_class: Any) -> Any:
    """Return a configuration of some ten thousand parameters."""
    config = config_class()
    takes = {
        name: value
        for name, value in TABLES["model"].items()
        if hasattr(config, name) and not isinstance(getattr(config_class, name, None), property)
    }
    if hasattr(config, "layer_types"):
        takes["layer_types"] = None
    with contextlib.suppress(Exception):
        return config_class(**takes)
    takes.pop("layer_types", None)
    return config_class(**takes)


def _config_class(name: str, loader: str) -> Any:
    import transformers

    is_seq2seq = "Seq2Seq" in loader or "ConditionalGeneration" in loader
    of_name = (found for pattern, found in TABLES["families"] if re.search(pattern, name.lower()))
    return getattr(transformers, next(of_name, "T5Config" if is_seq2seq else "LlamaConfig"))


def _loaders_take() -> frozenset[str]:
    """Return the keywords that loaders read although their signatures only say ``**kwargs``."""
    import transformers
    from transformers.models.auto import auto_factory

    load = transformers.PreTrainedModel.from_pretrained
    text = inspect.getsource(load) + inspect.getsource(auto_factory)
    named = (*re.findall(r'"(\w+)"', text), *TABLES["ignored by loaders"])
    return frozenset((*named, *inspect.signature(load).parameters))


def replace_loaders(
    config_of: Callable[[str, str, Any], Any],
    build: Callable[[Any, Any, dict[str, Any]], Any],
    *,
    is_tiny: bool,
) -> None:
    """Replace what loads models and configurations.

    config_of: the configuration by a checkpoint's name, the loader's and the class of the
    configuration, None where that is the checkpoint's to say. build: the model, by what makes it
    of a configuration, the configuration and the loader's keywords. is_tiny: no script makes it
    larger.
    """
    import transformers.models.auto.modeling_auto
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    real_config, known = transformers.AutoConfig.from_pretrained, _loaders_take()

    def load(make: Any, name: Any, loader: str, config_class: Any, kw: dict[str, Any]) -> Any:
        name = str(kw.pop("pretrained_model_name_or_path", name))
        config = None if is_tiny else kw.get("config")
        is_read = Path(name, "config.json").is_file() and (config_class is None or not is_tiny)
        if config is None and is_read:
            config = (real_config if config_class is None else config_class.from_pretrained)(name)
        config = config or config_of(name, loader, config_class)
        for key in kw:
            if key not in known and not hasattr(config, key):
                raise TypeError(
                    f"{loader}.from_pretrained() got an unexpected keyword argument '{key}'"
                )
        for key in ("num_labels", "id2label", "label2id", "problem_type", "use_cache"):
            if key in kw:
                setattr(config, key, kw[key])
        if kw.get("attn_implementation") in ("eager", "sdpa"):
            config._attn_implementation = kw["attn_implementation"]
        model = build(make, config, kw)
        model.name_or_path = model.config.name_or_path = name
        return model.eval()

    def auto(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        return load(cls.from_config, name, cls.__name__, None, kw)

    def concrete(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        return load(cls._from_config, name, cls.__name__, cls.config_class, kw)

    # Each ``AutoModelFor...`` has a copy of its own of the loader.
    for cls in (_BaseAutoModelClass, *_BaseAutoModelClass.__subclasses__()):
        cls.from_pretrained = classmethod(auto)
    transformers.PreTrainedModel.from_pretrained = classmethod(concrete)

    def config(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        if Path(str(name), "config.json").is_file():
            return real_config(name, *args, **kw)
        unused = kw.pop("return_unused_kwargs", False)
        made = config_of(str(name), "", None)
        for key, value in kw.items():
            if hasattr(made, key) and not (is_tiny and key == "vocab_size"):
                setattr(made, key, value)
        return (made, {}) if unused else made

    transformers.AutoConfig.from_pretrained = classmethod(config)
    transformers.GenerationConfig.from_pretrained = classmethod(lambda cls, *a, **k: cls())


def build_model(make: Any, config: Any, kw: dict[str, Any]) -> Any:
    """Return a model in the dtype that a script says, frozen where it says to quantize it."""
    import torch

    torch.manual_seed(0)
    model = make(config)
    if kw.get("dtype", kw.get("torch_dtype")) in (torch.bfloat16, "bfloat16"):
        model = model.to(torch.bfloat16)
    return model.requires_grad_(False) if kw.get("quantization_config") else model


def replace_models(build: Callable[[Any, Any, dict[str, Any]], Any]) -> None:
    import torch
    import transformers

    def config_of(name: str, loader: str, config_class: Any) -> Any:
        return with_architecture(_shrunk(config_class or _config_class(name, loader)))

    replace_loaders(config_of, build, is_tiny=True)
    real_generate = transformers.GenerationMixin.generate

    def generate(self: Any, *args: Any, **kw: Any) -> Any:
        for name in ("max_new_tokens", "max_length"):
            if isinstance(kw.get(name), int) and kw[name] > 64:
                kw.pop(name)
                kw["max_new_tokens"] = 4
        made = real_generate(self, *args, **kw)
        if isinstance(made, torch.Tensor) and not self.config.is_encoder_decoder:
            ids = kw.get("input_ids", args[0] if args else made[:, :0])
            # Each ends where its tokens say: one that knows no end makes all of one length, of
            # which nothing can be cut, and whose losses sum up to 0.
            new = made[:, ids.shape[1] + 1 :]
            if new.shape[1] > 0:
                new.scatter_(1, new.sum(1, keepdim=True) % new.shape[1], self.config.eos_token_id)
        return made

    transformers.GenerationMixin.generate = generate
    real_load, real_take = torch.load, torch.nn.Module.load_state_dict

    def load(file: Any, *args: Any, **kw: Any) -> Any:
        is_gone = isinstance(file, str | Path) and not Path(file).exists()
        return MagicMock() if is_gone else real_load(file, *args, **kw)

    def take(self: Any, weights: Any, *args: Any, **kw: Any) -> Any:
        is_gone = isinstance(weights, MagicMock)
        return real_take(self, {}, False) if is_gone else real_take(self, weights, *args, **kw)

    torch.load, torch.nn.Module.load_state_dict = load, take
