"""The settings of a run, as far as memory goes: read from JSON, checked, nothing guessed.

A field that nobody set is ``None``; ``assume`` fills it in and names what it took, so that every
number rests on settings that are given or on assumptions that are listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from memlint.source.record import Record


class SettingsError(ValueError):
    """A setting that is unknown or has a value that cannot be."""


class Lora(Record):
    """Low-rank adapters. ``target_modules``: names, or ``all-linear``; dtype: of the adapters."""

    r: int | None = None
    target_modules: tuple[str, ...] | str | None = None
    dropout: float | None = None
    modules_to_save: tuple[str, ...] = ()
    dtype: str | None = None


class Quantization(Record):
    """Quantized base weights. ``kbit_preparation``: PEFT's ``prepare_model_for_kbit_training``."""

    bits: int | None = None
    type: str | None = None
    double_quant: bool | None = None
    compute_dtype: str | None = None
    kbit_preparation: bool | None = None
    skip_modules: tuple[str, ...] | None = None


class Settings(Record):
    """Everything that the memory of a run depends on; ``None`` where nobody said."""

    model: str | Mapping[str, Any]
    method: str | None = None
    lora: Lora | None = None
    quantization: Quantization | None = None
    weights_dtype: str | None = None
    compute_dtype: str | None = None
    optimizer: str | None = None
    micro_batch: int | None = None
    seq_len: int | None = None
    packed: bool | None = None
    longest_first: bool | None = None
    gradient_accumulation: int | None = None
    checkpointing: str | None = None
    attention: str | None = None
    loss: str | None = None
    trainer: str | None = None
    group_size: int | None = None
    prompt_len: int | None = None
    completion_len: int | None = None
    shared_prompt: bool | None = None
    reference_model: bool | None = None
    frozen_models: Mapping[str, str] = {}
    offload: str | None = None
    streamed: bool | None = None
    head_in_tiles: bool | None = None
    compile: bool | None = None
    world_size: int | None = None
    sharding: str | None = None
    sharding_options: Mapping[str, Any] = {}
    gpu: str | None = None
    versions: Mapping[str, str] = {}
    autocast: bool | None = None
    evaluation: bool | None = None
    generation: Mapping[str, Any] = {}


METHODS = ("full", "lora", "qlora")
CHECKPOINTING = ("none", "full", "reentrant", "selective")
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
LOSSES = ("full_logits", "fused", "chunked", "liger")
TRAINERS = (
    "transformers.Trainer",
    "trl.SFTTrainer",
    "trl.DPOTrainer",
    "trl.GRPOTrainer",
    "loop",
)
OFFLOADS = ("none", "activations", "optimizer", "parameters")
SHARDINGS = ("none", "ddp", "fsdp", "fsdp2", "zero1", "zero2", "zero3")
QUANTIZATIONS = ("nf4", "fp4", "int8", "gptq", "awq")
_DTYPES = {
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "torch.bfloat16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
    "torch.float16": "float16",
    "float32": "float32",
    "fp32": "float32",
    "float": "float32",
    "torch.float32": "float32",
    "tf32": "float32",
    "float8": "float8",
    "fp8": "float8",
}
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "float8": 1}
_ALIASES = {
    "attention": {
        "flash_attn": "flash_attention_2",
        "flash": "flash_attention_2",
        "flash_attention": "flash_attention_2",
        "flex": "flex_attention",
    },
    "checkpointing": {"true": "full", "false": "none", "non_reentrant": "full"},
    "sharding": {"fsdp1": "fsdp", "deepspeed_zero3": "zero3", "deepspeed_zero2": "zero2"},
    "trainer": {
        "Trainer": "transformers.Trainer",
        "SFTTrainer": "trl.SFTTrainer",
        "DPOTrainer": "trl.DPOTrainer",
        "GRPOTrainer": "trl.GRPOTrainer",
        "custom": "loop",
    },
}
_CHOICES = {
    "method": METHODS,
    "checkpointing": CHECKPOINTING,
    "attention": ATTENTION,
    "loss": LOSSES,
    "trainer": TRAINERS,
    "offload": OFFLOADS,
    "sharding": SHARDINGS,
}
_COUNTS = (
    "micro_batch",
    "seq_len",
    "gradient_accumulation",
    "group_size",
    "prompt_len",
    "completion_len",
    "world_size",
)
_FLAGS = (
    *("packed", "longest_first", "compile", "autocast", "evaluation", "shared_prompt"),
    *("reference_model", "streamed", "head_in_tiles"),
)
_MAPPINGS = ("sharding_options", "versions", "generation", "frozen_models")
_NUMBERS = (
    "reduce_bucket_size",
    "stage3_max_live_parameters",
    "vllm_gpu_memory_utilization",
    "steps_per_generation",
)
_LONGEST = 100  # characters of a value in a message
_MOST = 10**9  # tokens, rows or GPUs of no run
_GENERATION = ("vllm", "vllm_gpu_memory_utilization", "steps_per_generation")
_NESTED: dict[str, type[Record]] = {"lora": Lora, "quantization": Quantization}


def read_settings(data: Mapping[str, Any]) -> Settings:
    """Check a mapping from JSON and make settings of it.

    Raises:
        SettingsError: an unknown key (with the nearest known one) or an impossible value.
    """
    if not isinstance(data, Mapping):
        raise SettingsError(f"settings are an object of keys and values, not {_shown(data)}")
    values: dict[str, Any] = {}
    for key, value in data.items():
        _known(key, Settings._fields, "")
        if value is not None:
            values[key] = _value(key, value)
    if "model" not in values:
        raise SettingsError('settings lack "model": a hub name, a path, or {"config": {...}}')
    return Settings(**values)


def replace(settings: Settings, **changes: Any) -> Settings:
    """The same settings with others for some keys, checked like JSON's."""
    unknown = [key for key in changes if key not in Settings._fields]
    if unknown:
        _known(unknown[0], Settings._fields, "")
    return settings._replace(
        **{key: value if value is None else _value(key, value) for key, value in changes.items()}
    )


def parse_assumption(text: str) -> tuple[str, Any]:
    """``seq_len=4096`` or ``lora.r=16`` as a key and a value of its type.

    Raises:
        SettingsError: no ``=``, or an unknown key.
    """
    key, sign, raw = text.partition("=")
    if not sign:
        raise SettingsError(f"--assume takes KEY=VALUE, such as seq_len=4096; got {text!r}")
    head = key.partition(".")[0]
    _known(head, Settings._fields, "")
    return key.strip(), _literal(raw.strip())


def with_assumption(settings: Settings, key: str, value: Any) -> Settings:
    """Set one key, or one key of a nested record (``lora.r``)."""
    head, _, tail = key.partition(".")
    if not tail:
        return replace(settings, **{head: value})
    if head in _NESTED:
        record = getattr(settings, head) or _NESTED[head]()
        _known(tail, type(record)._fields, f"{head}.")
        inner = {name: getattr(record, name) for name in type(record)._fields}
        return replace(settings, **{head: {**inner, tail: value}})
    return replace(settings, **{head: {**getattr(settings, head), tail: value}})


def dtype_width(name: str) -> int:
    """Bytes of one number of a dtype."""
    return WIDTHS[name]


def _literal(raw: str) -> Any:
    lowered = raw.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    for kind in (int, float):
        try:
            return kind(raw)
        except ValueError:
            continue
    return raw


def _known(key: str, names: tuple[str, ...], prefix: str) -> None:
    if key in names:
        return
    import difflib

    near = difflib.get_close_matches(key, names, 1, 0.5)
    hint = f": do you mean {prefix + near[0]!r}?" if near else f"; known: {', '.join(names)}"
    raise SettingsError(f"unknown setting {_shown(prefix + key)}{hint}")


def _shown(value: object) -> str:
    """A value in a message: the beginning of one that is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _value(key: str, value: Any) -> Any:
    if key == "model":
        return _model(value)
    if key in _CHOICES:
        return _choice(key, value, _CHOICES[key])
    if key in ("weights_dtype", "compute_dtype"):
        return _dtype(key, value)
    if key in _COUNTS:
        return _count(key, value)
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise SettingsError(f"{key} is true or false, not {_shown(value)}")
        return value
    if key in _MAPPINGS:
        return _mapping(key, value)
    if key in _NESTED:
        return _nested(key, value)
    if not isinstance(value, str):
        raise SettingsError(f"{key} is a string, not {_shown(value)}")
    return value


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{key} is an object, not {_shown(value)}")
    _plain_values(key, value)
    if key == "frozen_models":
        counted = {name: form for name, form in value.items() if form != "ignored"}
        return {str(name): _stored(f"{key}.{name}", form) for name, form in counted.items()}
    if key == "versions":
        return {str(name): str(version) for name, version in value.items()}
    if key == "generation":
        _generation(value)
    return dict(value)


def _stored(key: str, form: Any) -> str:
    """How frozen weights are stored: a dtype, or a quantization."""
    return str(form) if form in QUANTIZATIONS else _dtype(key, form)


def _generation(value: Mapping[str, Any]) -> None:
    """How completions are sampled: the names are known, vLLM's share is one."""
    for name, inner in value.items():
        _known(name, _GENERATION, "generation.")
        if name == "vllm" and inner is not None:
            _flag("generation.vllm", inner)
        if name == "vllm_gpu_memory_utilization" and inner is not None:
            _share(f"generation.{name}", inner)


def _plain_values(key: str, value: Mapping[Any, Any]) -> None:
    """Options of other libraries are taken as they are; numbers must be ones that can be."""
    for name, inner in value.items():
        wrong = isinstance(inner, (int, float)) and not isinstance(inner, bool)
        if wrong and not 0 <= inner < 2**63:
            raise SettingsError(f"{key}.{name} is a number from 0, not {_shown(inner)}")
        if name in _NUMBERS and not isinstance(inner, (int, float, type(None))) and inner != "auto":
            raise SettingsError(f"{key}.{name} is a number, not {_shown(inner)}")


def _model(value: Any) -> str | Mapping[str, Any]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, Mapping):
        config = value.get("config", value)
        if isinstance(config, Mapping):
            return dict(config)
    raise SettingsError(
        f'model is a hub name, a path, or {{"config": {{...}}}}, not {_shown(value)}'
    )


def _choice(key: str, value: Any, choices: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    name = _ALIASES.get(key, {}).get(str(value), str(value))
    if name in choices:
        return name
    import difflib

    near = difflib.get_close_matches(name, choices, 1, 0.4)
    hint = f" (do you mean {near[0]!r}?)" if near else ""
    raise SettingsError(f"{key} is one of {', '.join(choices)}, not {_shown(value)}{hint}")


def _dtype(key: str, value: Any) -> str:
    name = _DTYPES.get(str(value))
    if name is None:
        raise SettingsError(f"{key} is bfloat16, float16, float32 or float8, not {_shown(value)}")
    return name


def _count(key: str, value: Any) -> int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value != int(value):
        raise SettingsError(f"{key} is a whole number, not {_shown(value)}")
    least = 0 if key == "prompt_len" else 1
    if value < least:
        raise SettingsError(f"{key} is at least {least}, not {_shown(value)}")
    if value > _MOST:
        raise SettingsError(f"{key} is at most {_MOST:,}, not {_shown(value)}")
    return int(value)


def _nested(key: str, value: Any) -> Record:
    record = _NESTED[key]
    if isinstance(value, record):
        return value
    if not isinstance(value, Mapping):
        raise SettingsError(
            f"{key} is an object with {', '.join(record._fields)}, not {_shown(value)}"
        )
    values: dict[str, Any] = {}
    for name, inner in value.items():
        _known(name, record._fields, f"{key}.")
        if inner is not None:
            values[name] = _inner(f"{key}.{name}", inner)
    if record is Quantization:
        _bits(values.get("bits"), values.get("type"))
    return record(**values)


_BITS = {"nf4": (4,), "fp4": (4,), "int8": (8,), "gptq": (2, 3, 4, 8), "awq": (4,)}


def _bits(bits: int | None, kind: str | None) -> None:
    allowed = _BITS[kind] if kind else (2, 3, 4, 8)
    if bits is not None and bits not in allowed:
        choices = " or ".join(str(choice) for choice in allowed)
        of = f" for {kind}" if kind else ""
        raise SettingsError(f"quantization.bits is {choices}{of}, not {bits}")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{name} is true or false, not {_shown(value)}")
    return value


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise SettingsError(f"{name} is a number from 0 to 1, not {_shown(value)}")
    return float(value)


def _quantization_type(name: str, value: Any) -> str:
    return _choice(name, value, QUANTIZATIONS)


# How the values of an adapter and of a quantization are read; names of modules aside.
_INNER: dict[str, Callable[[str, Any], Any]] = {
    "dtype": _dtype,
    "compute_dtype": _dtype,
    "r": _count,
    "bits": _count,
    "double_quant": _flag,
    "kbit_preparation": _flag,
    "dropout": _share,
    "type": _quantization_type,
}


def _inner(name: str, value: Any) -> Any:
    short = name.partition(".")[2]
    read = _INNER.get(short)
    if read is not None:
        return read(name, value)
    if short == "target_modules" and isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if short in ("modules_to_save", "skip_modules") and isinstance(value, str):
        return (value,)
    raise SettingsError(f"{name} is a list of module names, not {_shown(value)}")
