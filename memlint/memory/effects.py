"""What a fix changes in the settings of a run.

Three answers, the first that is there counts most: what the rule itself says (``Fix.effect``), what
the edits write (``SetKeyword("gradient_checkpointing", "True")``), what the rule's code stands
for. Options that a new rule sets thus have their price without a word here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from memlint.memory.settings import Quantization, Settings
from memlint.source.edits import InsertStatement, SetItem, SetKeyword

if TYPE_CHECKING:
    from memlint.rule.findings import Finding
    from memlint.source.edits import Edit

Changes = tuple[tuple[str, Any], ...]


def effect_of(finding: Finding, known: Settings) -> Changes:
    """The settings that change once the finding is fixed; empty: nothing that has a price.

    known: the settings of the run, complete.
    """
    by_code = _BY_CODE.get(finding.code)
    changes: dict[str, Any] = dict(by_code(known)) if by_code is not None else {}
    if finding.fix is not None:
        for edit in finding.fix.edits:
            changes.update(_written(edit, known))
        changes.update(finding.fix.effect)
    return tuple(
        sorted(
            (key, value)
            for key, value in changes.items()
            if key in Settings._fields and getattr(known, key) != value
        )
    )


def _written(edit: Edit, known: Settings) -> Iterator[tuple[str, Any]]:
    """What an edit's option or call changes."""
    match edit:
        case SetKeyword(name=name, source=source) | SetItem(key=name, source=source):
            reader = _OPTIONS.get(name)
            if reader is not None:
                yield from reader(_literal(source), known).items()
        case InsertStatement(source=source):
            for name, effect in _CALLS.items():
                if f"{name}(" in source:
                    yield from effect(known).items()


def _literal(source: str) -> Any:
    """The value of a literal; the last name of a dotted one, as ``bfloat16``."""
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return source.rpartition(".")[2]


Effect = Callable[[Settings], Mapping[str, Any]]
Reader = Callable[[Any, Settings], Mapping[str, Any]]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def no_logits(known: Settings) -> Mapping[str, Any]:
    """A loss that never has all logits: TRL's tiles in its trainers, else gradients by pieces."""
    if known.loss != "full_logits":
        return _NOTHING
    return {"loss": "chunked" if (known.trainer or "").startswith("trl.") else "liger"}


def _checkpointed(known: Settings) -> Mapping[str, Any]:
    return {"checkpointing": "full"}


def _narrow_weights(known: Settings) -> Mapping[str, Any]:
    return {"weights_dtype": "bfloat16"} if known.weights_dtype == "float32" else _NOTHING


def _narrow_compute(known: Settings) -> Mapping[str, Any]:
    if known.compute_dtype != "float32":
        return _NOTHING
    return {"compute_dtype": "bfloat16", "autocast": True}


def _no_scores(known: Settings) -> Mapping[str, Any]:
    return {"attention": "sdpa"} if known.attention == "eager" else _NOTHING


def _eight_bits(known: Settings) -> Mapping[str, Any]:
    return {"optimizer": "adamw_8bit"} if "adamw_torch" in (known.optimizer or "") else _NOTHING


def _quantized(known: Settings) -> Mapping[str, Any]:
    if known.method != "lora" or known.quantization is not None:
        return _NOTHING
    return {"method": "qlora", "quantization": Quantization(bits=4, type="nf4")}


def _streamed(known: Settings) -> Mapping[str, Any]:
    return {"streamed": True} if known.method != "full" else _NOTHING


# What the rules stand for. A rule that is not here is priced by its edits or by its own word; one
# whose saving is time, padding or a guess (lengths of data) has no price.
_BY_CODE: Mapping[str, Effect] = {
    "MEM201": no_logits,
    "MEM202": no_logits,
    "MEM203": no_logits,
    "MEM204": no_logits,
    "MEM301": _checkpointed,
    "MEM303": lambda known: _checkpointed(known) if known.checkpointing == "reentrant" else {},
    "MEM304": _no_scores,
    "MEM305": lambda known: {"offload": "activations"},
    "MEM401": _narrow_weights,
    "MEM402": _narrow_compute,
    "MEM405": lambda known: {"reference_model": False},
    "MEM406": lambda known: {"method": "lora"} if known.method == "full" else {},
    "MEM407": _quantized,
    "MEM412": _streamed,
    "MEM501": _eight_bits,
    "MEM601": lambda known: {"shared_prompt": True},
}


def _number(key: str) -> Reader:
    def read(value: Any, known: Settings) -> Mapping[str, Any]:
        is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return {key: value} if is_number else _NOTHING

    return read


def _flag(effect: Effect) -> Reader:
    """An option that has ``effect`` where it is set to True."""
    return lambda value, known: effect(known) if value is True else _NOTHING


def _word(key: str, *words: str) -> Reader:
    return lambda value, known: {key: value} if value in words else _NOTHING


def _mixed(width: str) -> Reader:
    def read(value: Any, known: Settings) -> Mapping[str, Any]:
        return {"compute_dtype": width, "autocast": True} if value is True else _NOTHING

    return read


_DTYPE = _word("weights_dtype", "bfloat16", "float16", "float32")


def _initial(value: Any, known: Settings) -> Mapping[str, Any]:
    """``model_init_kwargs``: options of the load that a trainer makes."""
    if not isinstance(value, dict):
        return _NOTHING
    return _DTYPE(value.get("dtype", value.get("torch_dtype")), known)


_OPTIONS: Mapping[str, Reader] = {
    "gradient_checkpointing": _flag(_checkpointed),
    "activation_checkpointing": _flag(_checkpointed),
    "activation_offloading": _flag(lambda known: {"offload": "activations"}),
    "use_liger_kernel": _flag(lambda known: {"loss": "liger"}),
    "use_liger_loss": _flag(lambda known: {"loss": "liger"}),
    "loss_type": lambda value, known: no_logits(known) if value == "chunked_nll" else _NOTHING,
    "bf16": _mixed("bfloat16"),
    "fp16": _mixed("float16"),
    "dtype": _DTYPE,
    "torch_dtype": _DTYPE,
    "model_init_kwargs": _initial,
    "attn_implementation": _word("attention", "sdpa", "flash_attention_2", "flash_attention_3"),
    "optim": lambda value, known: {"optimizer": value} if isinstance(value, str) else _NOTHING,
    "max_length": _number("seq_len"),
    "max_seq_length": _number("seq_len"),
    "max_prompt_length": _number("prompt_len"),
    "max_completion_length": _number("completion_len"),
    "per_device_train_batch_size": _number("micro_batch"),
    "gradient_accumulation_steps": _number("gradient_accumulation"),
}
_CALLS: Mapping[str, Effect] = {
    "fuse_causal_lm_loss": no_logits,
    "fuse_trl_losses": no_logits,
    "gradient_checkpointing_enable": _checkpointed,
    "checkpoint_activations": _checkpointed,
    "offload_activations": lambda known: {"offload": "activations"},
    "stream_frozen_weights": _streamed,
}
