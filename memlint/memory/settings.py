"""The settings of a run, as far as memory goes: read from JSON, checked, nothing guessed.

A field that nobody set is ``None``; ``assume`` fills it in and names what it took, so that every
number rests on settings that are given or on assumptions that are listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memlint.memory.sharding import SHARDING_OPTIONS, unread
from memlint.memory.trainer_kinds import KINDS
from memlint.rule.savings import Pricing
from memlint.source.record import Record


class SettingsError(ValueError):
    """A setting that is unknown or has a value that cannot be."""


class Lora(Record):
    """Low-rank adapters. ``target_modules``: names, or ``all-linear``; dtype: of the adapters;
    frozen_a: only the second of each adapter's two matrices is trained (LoRA-FA)."""

    r: int | None = None
    target_modules: tuple[str, ...] | str | None = None
    dropout: float | None = None
    modules_to_save: tuple[str, ...] = ()
    dora: bool | None = None
    dtype: str | None = None
    frozen_a: bool | None = None


class Quantization(Record):
    """Quantized base weights. ``kbit_preparation``: PEFT's ``prepare_model_for_kbit_training``."""

    bits: int | None = None
    type: str | None = None
    double_quant: bool | None = None
    compute_dtype: str | None = None
    kbit_preparation: bool | None = None
    skip_modules: tuple[str, ...] | None = None


class Settings(Record):
    """All inputs of the memory model; ``None`` for those that are not specified.

    frozen: what a run that trains weights in full leaves out: ``embeddings``, or the ``backbone``,
    so that the head alone is trained. head: what the last layer's states go into; labels: outputs
    of a classifier. label_len: tokens of a row of labels, where a decoder has its own.
    fixed_length: whether all rows have one length.
    logits_copies: float32 tensors as large as the logits that a loss of the script's own keeps
    beside what the library's would. held_outputs: False where a loop deletes its outputs once they
    are read. held_cache: whether outputs that a loop holds have a cache of keys and values.
    float32_outputs: whether a wrapper converts what a loop's model returns.
    zeroed_gradients: whether they are filled with zeros, not freed.
    value_model: what PPO trains beside the policy. copies: of all weights, on the GPU.
    held_checkpoint: whether what was read from a file stays there beside the weights.
    eval_rows: rows whose logits an evaluation keeps, for metrics.
    notes: why the settings of these names are open, in the words of who read them.
    """

    model: str | Mapping[str, Any]
    head: str | None = None
    labels: int | None = None
    method: str | None = None
    frozen: str | None = None
    lora: Lora | None = None
    quantization: Quantization | None = None
    weights_dtype: str | None = None
    compute_dtype: str | None = None
    optimizer: str | None = None
    micro_batch: int | None = None
    seq_len: int | None = None
    label_len: int | None = None
    fixed_length: bool | None = None
    packed: bool | None = None
    longest_first: bool | None = None
    gradient_accumulation: int | None = None
    checkpointing: str | None = None
    attention: str | None = None
    loss: str | None = None
    logits_copies: int | None = None
    held_outputs: bool | None = None
    held_cache: bool | None = None
    float32_outputs: bool | None = None
    zeroed_gradients: bool | None = None
    trainer: str | None = None
    group_size: int | None = None
    prompt_len: int | None = None
    completion_len: int | None = None
    shared_prompt: bool | None = None
    reference_model: bool | None = None
    value_model: str | None = None
    frozen_models: Mapping[str, str] = {}
    copies: int | None = None
    held_checkpoint: bool | None = None
    offload: str | None = None
    streamed: bool | None = None
    head_in_tiles: bool | None = None
    tiled_mlp: bool | None = None
    compile: bool | None = None
    world_size: int | None = None
    sharding: str | None = None
    sharding_options: Mapping[str, Any] = {}
    gpu: str | None = None
    expandable: bool | None = None
    versions: Mapping[str, str] = {}
    autocast: bool | None = None
    evaluation: bool | None = None
    eval_batch: int | None = None
    eval_rows: int | None = None
    generation: Mapping[str, Any] = {}
    vllm_sleep: bool | None = None
    notes: Mapping[str, str] = {}


# Formats whose kernels unpack weights as they go: bits, and bytes of constants for so many numbers.
PACKED: Mapping[str, tuple[int, int, int]] = {
    "hqq": (4, 4, 64),
    "int4": (4, 4, 128),
    "nvfp4": (4, 1, 16),
    "mxfp4": (4, 1, 32),
    "fp8": (8, 4, 128 * 128),
}
# Libraries whose releases change what a run needs, and those that people name beside them.
LIBRARIES = (
    *("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "deepspeed"),
    *("liger_kernel", "litgpt", "torchtune", "torchao", "lightning", "pytorch_lightning"),
    *("unsloth", "axolotl", "llamafactory", "vllm", "datasets", "flash_attn", "xformers", "triton"),
)
QUANTIZATIONS = ("nf4", "fp4", "int8", "gptq", "awq", *PACKED)
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "float8": 1}
_DTYPES = {
    **{name: name for name in WIDTHS},
    **{f"torch.{name}": name for name in ("bfloat16", "float16", "float32")},
    "bf16": "bfloat16",
    "half": "float16",
    "fp16": "float16",
    "fp8": "float8",
    **dict.fromkeys(("fp32", "float", "tf32"), "float32"),
}
# Options of other libraries that are numbers, or left to the library ("auto").
_NUMBERS = (
    *("reduce_bucket_size", "stage3_max_live_parameters"),
    *("vllm_gpu_memory_utilization", "steps_per_generation"),
)
_BITS = {
    "nf4": (4,),
    "fp4": (4,),
    "int8": (8,),
    "gptq": (2, 3, 4, 8),
    "awq": (4,),
    **{name: (bits,) for name, (bits, _, _) in PACKED.items()},
    "hqq": (1, 2, 3, 4, 8),
    "none": (1, 2, 3, 4, 8),
}
_MANY = 50  # names that a message does not list
_LONGEST = 100  # characters of a value in a message
_MOST = 10**9  # tokens, rows or GPUs of no run
_NESTED: dict[str, type[Record]] = {"lora": Lora, "quantization": Quantization}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "method": ("full", "lora", "qlora"),
    "frozen": ("none", "embeddings", "backbone"),
    "checkpointing": ("none", "full", "reentrant", "selective", "all_but_attention"),
    "attention": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"),
    "loss": ("full_logits", "fused", "chunked", "liger"),
    "trainer": tuple(KINDS),
    "head": ("lm", "classes", "tokens", "none"),
    "offload": ("none", "activations", "optimizer", "parameters"),
    "sharding": ("none", "ddp", "fsdp", "fsdp2", "zero1", "zero2", "zero3"),
    "quantization.type": (*QUANTIZATIONS, "none"),
}
_ALIASES: Mapping[str, Mapping[str, str]] = {
    "attention": {
        **dict.fromkeys(("flash_attn", "flash", "flash_attention"), "flash_attention_2"),
        "flex": "flex_attention",
    },
    "checkpointing": {"true": "full", "false": "none", "non_reentrant": "full"},
    "sharding": {"fsdp1": "fsdp", "deepspeed_zero3": "zero3", "deepspeed_zero2": "zero2"},
    "trainer": {
        **{name.rpartition(".")[2]: name for name in KINDS},
        "custom": "loop",
    },
}


def read_settings(data: Mapping[str, Any]) -> Settings:
    """Check a mapping from JSON and make settings of it.

    Raises:
        SettingsError: an unknown key (with the nearest known one) or an impossible value.
    """
    if not isinstance(data, Mapping):
        raise SettingsError(f"settings are an object of keys and values, not {_shown(data)}")
    values = _checked("", data)
    if "model" not in values:
        raise SettingsError('settings lack "model": a hub name, a path, or {"config": {...}}')
    return Settings(**values)


def replace(settings: Settings, **changes: Any) -> Settings:
    """The same settings with others for some keys, checked like JSON's."""
    return settings._replace(**{**dict.fromkeys(changes), **_checked("", changes)})


def parse_assumption(text: str) -> tuple[str, Any]:
    """``seq_len=4096`` or ``lora.r=16`` as a key and a value of its type.

    Raises:
        SettingsError: no ``=``, or an unknown key.
    """
    key, sign, raw = text.partition("=")
    if not sign:
        raise SettingsError(f"--assume takes KEY=VALUE, such as seq_len=4096; got {text!r}")
    head, _, tail = key.strip().partition(".")
    _check_name(head, "")
    check_inner_names({head: {tail: None}} if tail else {})
    return key.strip(), _literal(raw.strip())


def check_inner_names(values: Mapping[str, Any]) -> None:
    """Check the keys of what other libraries' options are written in by hand.

    Raises:
        SettingsError: a library or an option that the model does not read.
    """
    options = values.get("sharding_options")
    for name in unread(options) if isinstance(options, Mapping) else ():
        _check_name(name, "sharding_options.")
    versions = values.get("versions")
    for name in versions if isinstance(versions, Mapping) else ():
        _check_name(name, "versions.")


def with_assumption(settings: Settings, key: str, value: Any) -> Settings:
    """Set one key, or one key of a nested record (``lora.r``)."""
    head, _, tail = key.partition(".")
    if not tail:
        return replace(settings, **{head: value})
    inner = getattr(settings, head)
    if head in _NESTED:
        record = inner or _NESTED[head]()
        _check_name(tail, f"{head}.")
        inner = {name: getattr(record, name) for name in record._fields}
    elif not isinstance(inner, Mapping):
        _check_name(key, "")
    return replace(settings, **{head: {**inner, tail: value}})


def read_with(values: Mapping[str, Any], gpu: str, assumptions: Iterable[str]) -> Settings:
    """The settings of a run with its GPU and what is assumed (``seq_len=4096``).

    Raises:
        SettingsError: a key or a value cannot be.
    """
    extra = [parse_assumption(text) for text in assumptions]
    given = {**values, **({"gpu": gpu} if gpu else {})}
    settings = read_settings(given | {key: value for key, value in extra if key == "model"})
    for key, value in extra:
        settings = with_assumption(settings, key, value)
    return settings


def with_pricing(values: Mapping[str, Any], pricing: Pricing) -> Settings:
    """The settings of a run with its GPU and what is assumed."""
    return read_with(values, pricing.gpu, pricing.assumptions)


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


def _checked(prefix: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the rows of their names; those that are ``None`` are left out."""
    values: dict[str, Any] = {}
    for name, value in data.items():
        _check_name(name, prefix)
        if value is not None:
            kind = _TYPES[prefix][name].removesuffix(" | None")
            read = _BY_NAME.get(prefix + name) or _BY_TYPE[kind]
            values[name] = read(prefix + name, value)
    return values


def _check_name(name: str, prefix: str) -> None:
    names = list(_TYPES[prefix])
    if name in names:
        return
    import difflib

    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f": do you mean {prefix + near[0]!r}?" if near else f"; known: {', '.join(names)}"
    hint = hint if near or len(names) < _MANY else "; docs/settings.md lists those that are known"
    raise SettingsError(f"unknown setting {_shown(prefix + name)}{hint}")


def _shown(value: object) -> str:
    """A value in a message: the beginning of one that is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _wrong(name: str, expected: str, value: object) -> SettingsError:
    return SettingsError(f"{name} is {expected}, not {_shown(value)}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# What a row's values are: each of these gives the value as it is kept, or raises SettingsError.


def _kind(
    holds: Callable[[Any], bool], expected: str, read: Callable[[Any], Any] = lambda value: value
) -> Callable[[str, Any], Any]:
    """What reads values for which ``holds`` is true, and refuses others."""

    def check(name: str, value: Any) -> Any:
        if not holds(value):
            raise _wrong(name, expected, value)
        return read(value)

    return check


_flag = _kind(lambda value: isinstance(value, bool), "true or false")
_share = _kind(lambda value: _is_number(value) and 0 <= value < 1, "a number from 0 to 1", float)
_dtype = _kind(
    lambda value: str(value) in _DTYPES,
    "bfloat16, float16, float32 or float8",
    lambda value: _DTYPES[str(value)],
)


def _count(name: str, value: Any) -> int:
    if not _is_number(value) or not math.isfinite(value) or value != int(value):
        raise _wrong(name, "a whole number", value)
    least = 0 if name in ("prompt_len", "logits_copies", "eval_rows", "copies") else 1
    if value < least:
        raise _wrong(name, f"at least {least}", value)
    if value > _MOST:
        raise _wrong(name, f"at most {_MOST:,}", value)
    return int(value)


def _choice(name: str, value: Any) -> str:
    choices = CHOICES[name]
    value = str(value).lower() if isinstance(value, bool) else value
    word = _ALIASES.get(name, {}).get(str(value), str(value))
    if word in choices:
        return word
    import difflib

    near = difflib.get_close_matches(word, choices, 1, 0.4)
    hint = f" (do you mean {near[0]!r}?)" if near else ""
    raise SettingsError(f"{name} is one of {', '.join(choices)}, not {_shown(value)}{hint}")


def _names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _wrong(name, "a list of module names", value)


def _model(name: str, value: Any) -> str | Mapping[str, Any]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, Mapping):
        config = value.get("config", value)
        if isinstance(config, Mapping):
            return dict(config)
    raise _wrong(name, 'a hub name, a path, or {"config": {...}}', value)


def _record(name: str, value: Any) -> Record:
    record = _NESTED[name]
    if isinstance(value, record):
        return value
    if not isinstance(value, Mapping):
        raise _wrong(name, f"an object with {', '.join(record._fields)}", value)
    values = _checked(f"{name}.", value)
    if record is Quantization:
        bits, kind = values.get("bits"), values.get("type")
        allowed = _BITS[kind] if kind else (1, 2, 3, 4, 8)
        if bits is not None and bits not in allowed:
            choices = " or ".join(str(choice) for choice in allowed)
            of = f" for {kind}" if kind else ""
            raise SettingsError(f"quantization.bits is {choices}{of}, not {bits}")
    return record(**values)


def _options(name: str, value: Any) -> dict[str, Any]:
    """Options of other libraries are taken as they are; numbers must be ones that can be."""
    if not isinstance(value, Mapping):
        raise _wrong(name, "an object", value)
    for key, inner in value.items():
        if _is_number(inner) and not 0 <= inner < 2**63:
            raise _wrong(f"{name}.{key}", "a number from 0", inner)
        if key in _NUMBERS and not isinstance(inner, (int, float, type(None))) and inner != "auto":
            raise _wrong(f"{name}.{key}", "a number", inner)
    return dict(value)


def _versions(name: str, value: Any) -> dict[str, str]:
    return {str(key): str(version) for key, version in _options(name, value).items()}


def _frozen(name: str, value: Any) -> dict[str, str]:
    """How frozen weights are stored: a dtype, or a quantization."""
    return {
        str(model): str(form) if form in QUANTIZATIONS else _dtype(f"{name}.{model}", form)
        for model, form in _options(name, value).items()
        if form != "ignored"
    }


# By the types of fields, and by the names of those whose type says too little.
_BY_TYPE: Mapping[str, Callable[[str, Any], Any]] = {
    "bool": _flag,
    "int": _count,
    "float": _share,
    "str": _kind(lambda value: isinstance(value, str), "a string"),
    "tuple[str, ...]": _names,
    "tuple[str, ...] | str": lambda name, value: (
        value if isinstance(value, str) else _names(name, value)
    ),
    "str | Mapping[str, Any]": _model,
    "Mapping[str, Any]": _options,
    **dict.fromkeys(("Lora", "Quantization"), _record),
}
_BY_NAME: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(("weights_dtype", "compute_dtype", "lora.dtype"), _dtype),
    "quantization.compute_dtype": _dtype,
    "frozen_models": _frozen,
    "versions": _versions,
    "notes": _versions,
    "generation": lambda name, value: _checked(f"{name}.", _options(name, value)),
    "generation.vllm": _flag,
    "generation.vllm_gpu_memory_utilization": _share,
    "generation.steps_per_generation": lambda name, value: value,
}
_TYPES: Mapping[str, Mapping[str, str]] = {
    "": Settings.__annotations__,
    **{f"{name}.": record.__annotations__ for name, record in _NESTED.items()},
    "sharding_options.": dict.fromkeys(SHARDING_OPTIONS, ""),
    "versions.": dict.fromkeys(LIBRARIES, ""),
    "generation.": dict.fromkeys(
        ("vllm", "vllm_gpu_memory_utilization", "steps_per_generation"), ""
    ),
}
