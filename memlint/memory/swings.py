"""What each assumption is worth: the peak with another value that the setting may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory.architecture import Architecture
from memlint.memory.assume import Assumption, assume
from memlint.memory.settings import Settings, SettingsError, with_assumption
from memlint.memory.timeline import Timeline
from memlint.memory.training_run import TrainingRun

_LEAST = 0.01  # of the peak: less is no other number
_OTHERS: dict[str, tuple[Any, ...]] = {
    "weights_dtype": ("float32", "bfloat16"),
    "compute_dtype": ("float32", "bfloat16"),
    "checkpointing": ("none", "full"),
    "loss": ("full_logits", "chunked"),
    "optimizer": ("sgd", "adamw_torch"),
    "logits_copies": (0, 4),
    "quantization.kbit_preparation": (False, True),
    "sharding": ("ddp", "zero3"),
    "method": ("full", "lora"),
}
_COUNTS = (
    *("micro_batch", "seq_len", "label_len", "prompt_len", "completion_len", "group_size"),
    *("eval_batch", "eval_rows", "lora.r", "world_size"),
)


def weighed(
    given: Settings, architecture: Architecture, assumptions: tuple[Assumption, ...], peak: int
) -> tuple[Assumption, ...]:
    """Return the assumptions with what others would make of the peak, the loudest first."""
    found = [_weighed(given, architecture, each, peak) for each in assumptions]
    return tuple(sorted(found, key=lambda each: -abs(each.peak - peak) if each.peak else 0))


def open_peaks(given: Settings, assumptions: tuple[Assumption, ...]) -> Iterator[int]:
    """Yield the peaks with other values for what a script has and nobody could read."""
    for each in assumptions:
        if each.peak and each.name in given.notes:
            yield each.peak


def _weighed(given: Settings, architecture: Architecture, one: Assumption, peak: int) -> Assumption:
    best = one
    for other in _others(one):
        try:
            known = assume(with_assumption(given, one.name, other), architecture)
            phases = Timeline(TrainingRun(known.settings, architecture)).phases()
        except SettingsError:
            continue
        size = max(phase.total for phase in phases)
        if abs(size - peak) > max(abs((best.peak or peak) - peak), _LEAST * peak):
            best = one._replace(other=other, peak=size)
    return best


def _others(one: Assumption) -> tuple[Any, ...]:
    if one.name in _COUNTS and isinstance(one.value, int):
        return (max(one.value // 2, 1), 2 * one.value)
    return tuple(each for each in _OTHERS.get(one.name, ()) if each != one.value)
