"""Softmax attention over runs and blocks of tokens, with its log-sum-exp, by PyTorch's kernels.

A kernel's backward takes the output and the log-sum-exp as arguments. That is what lets several
calls over disjoint keys act as one attention: hand each the *merged* output and log-sum-exp, and it
recomputes exactly the probabilities that the whole softmax gives to its own keys.

CUDA: the flash kernels behind `torch.nn.attention.varlen`, called below the level of autograd,
because autograd there drops the gradient through the log-sum-exp. From compute capability 8.0, half
precision, head sizes up to 256 in steps of 8; windows are the kernel's own.
CPU: PyTorch's own flash kernel for CPUs, one call for each run, equal runs batched; any precision,
and exact enough in float64 to serve as the proof of the joining. It knows no windows, but masks:
`WindowBlocks` calls it for a block of queries and the keys that their windows reach.

T query tokens, S key tokens, H query heads, K key heads (H a multiple of K), D head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["Attended", "CpuRuns", "CudaRuns", "Kernel", "Runs", "WindowBlocks", "flash_serves"]

_LARGEST_HEAD = 256


@dataclass(frozen=True, eq=False)
class Runs:
    """Where runs of tokens begin and end, from 0 on: `[n + 1]` int32 for n runs on the device, and
    on the host where somebody knew (CPU kernels have to). longest: tokens, or more."""

    bounds_device: Tensor
    longest: int
    bounds: tuple[int, ...] | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Runs:
        bounds = [0]
        for length in lengths:
            bounds.append(bounds[-1] + length)
        on_device = torch.tensor(bounds, dtype=torch.int32, device=device)
        return cls(on_device, max(lengths, default=0), tuple(bounds))


class Attended(NamedTuple):
    """What a backward is given: the gradient by the output `[T, H, D]`, the forward's arguments,
    and output and log-sum-exp `[H, T]` over all keys, its own and others."""

    grad: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    lse: Tensor
    scale: float


class Kernel(Protocol):
    """Attention of T query tokens over S key tokens, whichever of these each of them sees."""

    def forward(
        self, query_THD: Tensor, key_SKD: Tensor, value_SKD: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Output `[T, H, D]` and log-sum-exp `[H, T]`, this in float32 (float64 for float64)."""

    def backward(self, of: Attended) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and value."""


def flash_serves(query_THD: Tensor, value_SKD: Tensor) -> bool:
    """True if the CUDA kernels take these; a narrower value is padded to the query's width."""
    width = max(query_THD.shape[-1], value_SKD.shape[-1])
    return (
        query_THD.is_cuda
        and torch.version.hip is None
        and query_THD.dtype in (torch.float16, torch.bfloat16)
        and width <= _LARGEST_HEAD
        and width % 8 == 0
        and _has_flash_kernel(query_THD.device.index)
    )


@cache
def _has_flash_kernel(device_index: int) -> bool:
    return torch.cuda.get_device_capability(device_index) >= (8, 0)


@dataclass(frozen=True, eq=False)
class CudaRuns:
    """Query run i over key run i by the flash kernels. Causal runs are of equal length, and only
    these may have a window: tokens that a token sees, itself included.

    The operators are arguments so that tests can put an emulation in their place.
    """

    queries: Runs
    keys: Runs
    causal: bool = False
    window: int | None = None
    forward_operator: Callable[..., Any] = torch.ops.aten._flash_attention_forward
    backward_operator: Callable[..., Any] = torch.ops.aten._flash_attention_backward

    def forward(
        self, query_THD: Tensor, key_SKD: Tensor, value_SKD: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        result = self.forward_operator(
            query_THD, key_SKD, value_SKD, *self._bounds(), False, scale=scale, **self._reach()
        )
        return result[0], result[1]

    def backward(self, of: Attended) -> tuple[Tensor, Tensor, Tensor]:
        grad_THD, query_THD, key_SKD, value_SKD, out_THD, lse_HT, scale = of
        # The state of a random generator that dropout 0 never asks for.
        state = torch.zeros(2, dtype=torch.uint64, device=query_THD.device)
        grads: tuple[Tensor, Tensor, Tensor] = self.backward_operator(
            grad_THD.contiguous(), query_THD, key_SKD, value_SKD,
            out_THD.contiguous(), lse_HT.contiguous(), *self._bounds(),
            state, torch.empty(0, device=query_THD.device), scale=scale, **self._reach(),
        )  # fmt: skip
        return grads

    def _bounds(self) -> tuple[Any, ...]:
        """Bounds, longest runs, no dropout, whether causal: a window says that by itself."""
        q, k = self.queries, self.keys
        causal = self.causal and self.window is None
        return q.bounds_device, k.bounds_device, q.longest, k.longest, 0.0, causal

    def _reach(self) -> dict[str, int]:
        # The kernel counts the tokens before a query, transformers the query too.
        if self.window is None:
            return {}
        return {"window_size_left": self.window - 1, "window_size_right": 0}


@dataclass(frozen=True, eq=False)
class CpuRuns:
    """The same on a CPU, without a window."""

    queries: Runs
    keys: Runs
    causal: bool = False

    def forward(
        self, query_THD: Tensor, key_SKD: Tensor, value_SKD: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        tensors = (self._split(i, x) for i, x in ((0, query_THD), (1, key_SKD), (1, value_SKD)))
        parts = [
            _cpu_forward(q, k, v, scale, n, causal=self.causal)
            for q, k, v, (_, _, n) in zip(*tensors, self._groups, strict=True)
        ]
        outs, lses = zip(*parts, strict=True)
        return _together(outs, 1), _together(lses, 2)

    def backward(self, of: Attended) -> tuple[Tensor, Tensor, Tensor]:
        grad_THD, query_THD, key_SKD, value_SKD, out_THD, lse_HT, scale = of
        by_query = (self._split(0, x) for x in (grad_THD, query_THD, out_THD, _as_saved(lse_HT)))
        by_key = (self._split(1, x) for x in (key_SKD, value_SKD))
        parts = [
            _cpu_backward(grad, q, k, v, out, lse, scale, n, causal=self.causal)
            for grad, q, out, lse, k, v, (_, _, n) in zip(
                *by_query, *by_key, self._groups, strict=True
            )
        ]
        grad_query, grad_key, grad_value = (_together(each, 1) for each in zip(*parts, strict=True))
        return grad_query, grad_key, grad_value

    def _split(self, side: int, x_THD: Tensor) -> tuple[Tensor, ...]:
        """`[1, H, T, D]` of each group of runs: in one call, since a call for each costs more than
        attention over short runs."""
        if len(self._groups) == 1:
            return (_row(x_THD),)
        return torch.split(_row(x_THD), [group[side] for group in self._groups], dim=2)

    @cached_property
    def _groups(self) -> list[tuple[int, int, int]]:
        """Neighbouring runs of equal length together: query and key tokens, number of runs."""
        q, k = self.queries.bounds, self.keys.bounds
        assert q is not None
        assert k is not None
        lengths = ((b - a, d - c) for (a, b), (c, d) in zip(pairwise(q), pairwise(k), strict=True))
        counted = ((sizes, len(list(equal))) for sizes, equal in groupby(lengths))
        return [(queries * n, keys * n, n) for (queries, keys), n in counted]


def _cpu_forward(
    query_1HTD: Tensor,
    key_1KSD: Tensor,
    value_1KSD: Tensor,
    scale: float,
    runs: int = 1,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Output `[1, T, H, D]` and log-sum-exp `[1, H, T]` of so many runs of equal length."""
    q, k, v = (_batch(x, runs) for x in (query_1HTD, key_1KSD, value_1KSD))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    if runs > 1:
        lse = lse.transpose(0, 1).flatten(1, 2).unsqueeze(0)
    return _unbatch(out), lse


def _cpu_backward(
    grad_1HTD: Tensor,
    query_1HTD: Tensor,
    key_1KSD: Tensor,
    value_1KSD: Tensor,
    out_1HTD: Tensor,
    lse_1HT1: Tensor,
    scale: float,
    runs: int = 1,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, `[1, T, H, D]`."""
    tensors = (_batch(x, runs) for x in (grad_1HTD, query_1HTD, key_1KSD, value_1KSD, out_1HTD))
    grad_query, grad_key, grad_value = (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *tensors, _batch(lse_1HT1, runs)[..., 0], 0.0, causal, attn_mask=mask, scale=scale
        )
    )
    return _unbatch(grad_query), _unbatch(grad_key), _unbatch(grad_value)


def _row(x_THD: Tensor) -> Tensor:
    return x_THD.transpose(0, 1).unsqueeze(0)


def _batch(x_1HTD: Tensor, runs: int) -> Tensor:
    """`[runs, H, tokens of one run, D]`."""
    return x_1HTD if runs == 1 else torch.unflatten(x_1HTD[0], 1, (runs, -1)).transpose(0, 1)


def _unbatch(x_NHTD: Tensor) -> Tensor:
    """`[1, tokens of all runs, H, D]`: the kernel lays its output out as we do."""
    x = x_NHTD.transpose(1, 2)
    return x if len(x) == 1 else x.flatten(0, 1).unsqueeze(0)


def _as_saved(lse_HT: Tensor) -> Tensor:
    """`[T, H, 1]`, laid out as the kernel's forward does it."""
    return lse_HT.T.contiguous().unsqueeze(-1)


def _together(parts: tuple[Tensor, ...], dim: int) -> Tensor:
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim))[0]


class WindowBlocks:
    """The CPU's kernel under a window, for at most `block` of the queries in a call: the last T of
    S consecutive tokens, each over itself and the `window - 1` before it."""

    def __init__(self, window: int, block: int) -> None:
        self.window, self.block = window, block
        self._masks: dict[torch.dtype, Tensor] = {}

    def forward(
        self, query_THD: Tensor, key_SKD: Tensor, value_SKD: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        mask = self._mask(len(query_THD), len(key_SKD), query_THD.dtype)
        q, k, v = map(_row, (query_THD, key_SKD, value_SKD))
        out, lse = _cpu_forward(q, k, v, scale, mask=mask)
        return out[0], lse[0]

    def backward(self, of: Attended) -> tuple[Tensor, Tensor, Tensor]:
        grad_THD, query_THD, key_SKD, value_SKD, out_THD, lse_HT, scale = of
        mask = self._mask(len(query_THD), len(key_SKD), query_THD.dtype)
        grad, q, k, v, out = map(_row, (grad_THD, query_THD, key_SKD, value_SKD, out_THD))
        lse = _row(_as_saved(lse_HT))
        grad_query, grad_key, grad_value = _cpu_backward(grad, q, k, v, out, lse, scale, mask=mask)
        return grad_query[0], grad_key[0], grad_value[0]

    def _mask(self, queries: int, keys: int, dtype: torch.dtype) -> Tensor:
        """What is added to scores, `[1, 1, T, S]`: a view of one mask for all blocks."""
        if dtype not in self._masks:
            ahead = self.window - 1
            distance = torch.arange(ahead, ahead + self.block)[:, None]
            distance = distance - torch.arange(ahead + self.block)
            hidden = (distance < 0) | (distance >= self.window)
            self._masks[dtype] = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(
                hidden, -torch.inf
            )
        first = self.window - 1 - (keys - queries)
        return self._masks[dtype][None, None, :queries, first : first + keys]
