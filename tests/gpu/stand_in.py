"""A stand-in for CUDA: what is asked to be on a GPU is on the CPU, and torch.cuda answers.

So that every step of `tests.gpu` runs where there is no GPU, and no slip of the pen waits for the
day with one. Nothing is compiled: what would be runs as it is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from memlint_runtime.attention.kernels import flex
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask
from torch.overrides import TorchFunctionMode

__all__ = ["cuda_on_the_cpu"]

_PEAK = 2**36


class _ToTheCpu(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is Tensor.cuda:
            return args[0]
        named = {name: _here(value) for name, value in (kwargs or {}).items()}
        return function(*map(_here, args), **named)


def _here(value: Any) -> Any:
    """The CPU for a name of a CUDA device; anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


class _Event:
    """`torch.cuda.Event`: the CPU's clock."""

    def __init__(self, *, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        assert self.enable_timing, "the event was made without enable_timing=True"
        return 1000 * (end.at - self.at)

    def synchronize(self) -> None: ...


def _flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score_mod: Any,
    block_mask: Any,
    scale: float,
    enable_gqa: bool,
    return_aux: Any,
) -> tuple[Tensor, Any]:
    """torch's FlexAttention, which has no gradients on a CPU, by all scores."""
    groups = query.shape[1] // key.shape[1]
    assert enable_gqa == (groups > 1)
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = scale * (query @ key.mT).float()
    if score_mod is not None:
        scores = score_mod(scores, None, None, None, None)
    seen = create_mask(
        block_mask.mask_mod, 1, 1, query.shape[2], key.shape[2], device=query.device.type
    )
    scores = scores.masked_fill(~seen, float("-inf"))
    out = scores.softmax(-1).to(value.dtype) @ value
    return out, SimpleNamespace(lse=scores.logsumexp(-1))


def _as_it_is(function: Any = None, **options: Any) -> Any:
    return function if function is not None else _as_it_is


@contextlib.contextmanager
def cuda_on_the_cpu() -> Iterator[None]:
    """Within, names of CUDA devices mean the CPU, and the allocator tells of one peak."""
    answers: dict[str, Callable[..., Any]] = {
        "synchronize": lambda *ignored: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda *ignored: None,
        "memory_allocated": lambda *ignored: 0,
        "max_memory_allocated": lambda *ignored: _PEAK,
        "max_memory_reserved": lambda *ignored: _PEAK,
        "Event": _Event,
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(torch, "compile", _as_it_is))
        stack.enter_context(mock.patch.object(flex, "_flex", return_value=_flex_attention))
        stack.enter_context(_ToTheCpu())
        yield
