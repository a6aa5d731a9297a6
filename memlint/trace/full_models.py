"""Models of their real size, as fakes, and a tokenizer of one token a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memlint.proof.stand_ins import sample_rows, tiny_models
from memlint.proof.stand_ins.tiny_tokens import replace_tokenizers
from memlint.trace.fake_gpu import FakeGpu

_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


def replace(gpu: FakeGpu, length: int, assumed: list[str]) -> None:
    """Replace what loads models and tokenizers. length: tokens of a row, before truncation."""
    lengthen_rows(length)
    replace_tokenizers(has_chat_template=True)
    _one_token_a_word()
    _load_models(gpu, assumed)


def lengthen_rows(length: int) -> None:
    """Make the texts of sample rows ``length`` words long; short ones (prompts) stay short."""
    real = sample_rows.text

    def text(index: int, words: int = 0) -> str:
        return real(index, words or length)

    sample_rows.text = text


def _one_token_a_word() -> None:
    import tokenizers
    import transformers

    words = dict.fromkeys((*_SPECIAL, *sample_rows._WORDS))
    core = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {word: index for index, word in enumerate(words)}, unk_token="<unk>"
        )
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    text = core.to_str()
    stand_in = transformers.AutoTokenizer.from_pretrained.__func__

    def tokenizer(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        made = stand_in(cls, name, *args, **kw)
        size = _vocabulary(str(name))

        class Full(type(made)):
            def __len__(self) -> int:
                return size

        Full.__name__ = type(made).__name__
        kept = {key: getattr(made, key) for key in ("chat_template", "padding_side")}
        limit = kw.get("model_max_length", 1 << 20)
        full = Full(
            tokenizer_object=tokenizers.Tokenizer.from_str(text), pad_token="<pad>",
            bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=limit,
        )  # fmt: skip
        for key, value in kept.items():
            setattr(full, key, value)
        for key in ("sep_token", "cls_token", "mask_token"):
            if getattr(made, key, None):
                setattr(full, key, "</s>")
        full.name_or_path = str(name)
        return full

    for cls in (
        transformers.AutoTokenizer,
        transformers.PreTrainedTokenizerBase,
        transformers.AutoProcessor,
    ):
        cls.from_pretrained = classmethod(tokenizer)


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


def _config(name: str, kind: Any, real: Any, assumed: list[str]) -> Any:
    """Return the configuration of a checkpoint: its own file, the tables', or the class's."""
    import transformers

    if Path(name, "config.json").is_file():
        return real(name)
    values = _find(name)
    if values is None:
        if kind is None:
            raise ValueError(f"{name}: no model of that name is known, so its size is not")
        assumed.append(f"{name}: the size that {kind.__name__} has where nobody says it")
        return kind()
    made = transformers.AutoConfig.for_model(str(values.pop("model_type")), **values)
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if type(made) in mapping and not made.architectures:
            made.architectures = [mapping[type(made)].__name__]
    return made


def _read_masks() -> None:
    """Let transformers drop masks that mask nothing, as it does on a GPU: a twin tells."""
    from transformers import masking_utils

    for name in ("is_tracing", "is_fake_tensor"):
        if hasattr(masking_utils, name):
            setattr(masking_utils, name, lambda *a, **k: False)


def _load_models(gpu: FakeGpu, assumed: list[str]) -> None:
    import torch
    import transformers
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    real_config = transformers.AutoConfig.from_pretrained
    _read_masks()

    def load(make: Any, name: Any, kind: Any, kw: dict[str, Any]) -> Any:
        if kw.get("quantization_config") is not None or kw.get("load_in_4bit"):
            raise ValueError("quantized weights cannot be traced: their kernels take no fakes")
        config = kw.get("config") or _config(str(name), kind, real_config, assumed)
        for key in ("num_labels", "id2label", "label2id", "problem_type", "use_cache"):
            if key in kw:
                setattr(config, key, kw[key])
        if config.pad_token_id is None:
            config.pad_token_id = 0
        if kw.get("attn_implementation") in ("eager", "sdpa"):
            config._attn_implementation = kw["attn_implementation"]
        wanted = kw.get("dtype", kw.get("torch_dtype", "auto"))
        if wanted in (None, "auto"):
            wanted = getattr(config, "dtype", None) if wanted == "auto" else None
        if isinstance(wanted, str):
            wanted = getattr(torch, wanted)
        config._name_or_path = str(name)
        with gpu.loading():
            model = make(config, wanted or torch.float32)
        model.name_or_path = str(name)
        return model.eval()

    def auto(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        tiny_models._refuse_unknown(cls.__name__, kw)
        name = kw.pop("pretrained_model_name_or_path", name)
        return load(lambda config, kind: cls.from_config(config, dtype=kind), name, None, kw)

    def concrete(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        tiny_models._refuse_unknown(cls.__name__, kw)

        def make(config: Any, kind: Any) -> Any:
            return cls._from_config(config, dtype=kind)

        return load(make, name, cls.config_class, kw)

    for cls in (_BaseAutoModelClass, *tiny_models._auto_classes()):
        cls.from_pretrained = classmethod(auto)
    transformers.PreTrainedModel.from_pretrained = classmethod(concrete)

    def config(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        unused = kw.pop("return_unused_kwargs", False)
        made = _config(str(name), None, real_config, assumed)
        for key, value in kw.items():
            setattr(made, key, value)
        return (made, {}) if unused else made

    transformers.AutoConfig.from_pretrained = classmethod(config)
    transformers.GenerationConfig.from_pretrained = classmethod(lambda cls, *a, **k: cls())

    def generate(self: Any, inputs: Any = None, *args: Any, **kw: Any) -> Any:
        ids = inputs if inputs is not None else kw["input_ids"]
        options = kw.get("generation_config")
        new = kw.get("max_new_tokens") or getattr(options, "max_new_tokens", None) or 20
        assumed.append(f"completions of {new} tokens; the cache of generation is not counted")
        return torch.cat([ids, ids.new_ones((len(ids), new))], 1)

    transformers.GenerationMixin.generate = generate
