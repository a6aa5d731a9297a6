"""Softmax attention over runs of tokens, with its log-sum-exp: one interface, two kernels.

A kernel's backward takes the output and the log-sum-exp as arguments. That is what lets several
calls over disjoint keys act as one attention: hand each the *merged* output and log-sum-exp, and it
recomputes exactly the probabilities that the whole softmax gives to its own keys.

CUDA: the flash kernels behind `torch.nn.attention.varlen`, called below the level of autograd,
because autograd there drops the gradient through the log-sum-exp. Half precision only.
CPU: PyTorch's own flash kernel for CPUs, one call for each run, equal runs batched; any precision,
and exact enough in float64 to serve as the proof of the joining.

T query tokens, S key tokens, H query heads, K key heads (H a multiple of K), D head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["CPU_KERNEL", "CUDA_KERNEL", "CudaKernel", "Kernel", "Runs", "kernel_for"]


@dataclass(frozen=True, eq=False)
class Runs:
    """Where runs of tokens begin and end: `bounds` of n runs has n + 1 entries, from 0 on."""

    bounds: tuple[int, ...]
    bounds_device: Tensor

    @classmethod
    def of(cls, lengths: list[int], device: torch.device) -> Runs:
        bounds = [0]
        for length in lengths:
            bounds.append(bounds[-1] + length)
        return cls(tuple(bounds), torch.tensor(bounds, dtype=torch.int32, device=device))

    @property
    def longest(self) -> int:
        return max(b - a for a, b in pairwise(self.bounds))


class Kernel(Protocol):
    """Attention of query run i over key run i, for every i; causal runs are of equal length."""

    def forward(
        self,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        """Output `[T, H, D]` and log-sum-exp `[H, T]`, this in float32 (float64 for float64)."""

    def backward(
        self,
        grad_THD: Tensor,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        out_THD: Tensor,
        lse_HT: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and value, given output and log-sum-exp over all keys."""


class _CpuKernel:
    def forward(
        self,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        tokens, heads, _ = query_THD.shape
        lse_type = torch.promote_types(query_THD.dtype, torch.float32)
        out_THD = query_THD.new_empty(tokens, heads, value_SKD.shape[-1])
        lse_HT = query_THD.new_empty(heads, tokens, dtype=lse_type)
        for q, k, n in _equal_runs(queries, keys):
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                _batch(query_THD[q], n), _batch(key_SKD[k], n), _batch(value_SKD[k], n),
                0.0, causal, scale=scale,
            )  # fmt: skip
            if q == slice(0, tokens):  # the kernel lays its output out as we do
                return out.transpose(1, 2).flatten(0, 1), lse.transpose(0, 1).flatten(1, 2)
            out_THD[q] = out.transpose(1, 2).flatten(0, 1)
            lse_HT[:, q] = lse.transpose(0, 1).flatten(1, 2)
        return out_THD, lse_HT

    def backward(
        self,
        grad_THD: Tensor,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        out_THD: Tensor,
        lse_HT: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        grads = tuple(torch.empty_like(x) for x in (query_THD, key_SKD, value_SKD))
        for q, k, n in _equal_runs(queries, keys):
            parts = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                _batch(grad_THD[q], n), _batch(query_THD[q], n), _batch(key_SKD[k], n),
                _batch(value_SKD[k], n), _batch(out_THD[q], n),
                _batch(lse_HT[:, q].T.unsqueeze(-1).contiguous(), n).squeeze(-1),
                0.0, causal, scale=scale,
            )  # fmt: skip
            if q == slice(0, len(query_THD)):
                grad_query, grad_key, grad_value = (x.transpose(1, 2).flatten(0, 1) for x in parts)
                return grad_query, grad_key, grad_value
            for grad, part, where in zip(grads, parts, (q, k, k), strict=True):
                grad[where] = part.transpose(1, 2).flatten(0, 1)
        return grads  # type: ignore[return-value]


def _batch(x_THD: Tensor, runs: int) -> Tensor:
    """`[runs, heads, tokens of one run, D]`."""
    return x_THD.view(runs, -1, *x_THD.shape[1:]).transpose(1, 2)


def _equal_runs(queries: Runs, keys: Runs) -> Iterator[tuple[slice, slice, int]]:
    """Neighbouring runs of equal length together: query tokens, key tokens, number of runs."""
    q, k = queries.bounds, keys.bounds
    first = 0
    while first < len(q) - 1:
        last = first + 1
        while (
            last < len(q) - 1
            and q[last + 1] - q[last] == q[first + 1] - q[first]
            and k[last + 1] - k[last] == k[first + 1] - k[first]
        ):
            last += 1
        yield slice(q[first], q[last]), slice(k[first], k[last]), last - first
        first = last


@dataclass(frozen=True)
class CudaKernel:
    """The flash kernels for runs of any length; the operators are arguments so that tests can put
    an emulation in their place."""

    forward_operator: Callable[..., Any] | None = None
    backward_operator: Callable[..., Any] | None = None

    def forward(
        self,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        operator = self.forward_operator or torch.ops.aten._flash_attention_forward
        out_THD, lse_HT, *_ = operator(
            query_THD, key_SKD, value_SKD,
            queries.bounds_device, keys.bounds_device, queries.longest, keys.longest,
            0.0, causal, False, scale=scale,
        )  # fmt: skip
        return out_THD, lse_HT

    def backward(
        self,
        grad_THD: Tensor,
        query_THD: Tensor,
        key_SKD: Tensor,
        value_SKD: Tensor,
        out_THD: Tensor,
        lse_HT: Tensor,
        queries: Runs,
        keys: Runs,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        operator = self.backward_operator or torch.ops.aten._flash_attention_backward
        # The state of a random generator that dropout 0 never asks for.
        state = torch.zeros(2, dtype=torch.uint64, device=query_THD.device)
        grads: tuple[Tensor, Tensor, Tensor] = operator(
            grad_THD.contiguous(), query_THD, key_SKD, value_SKD,
            out_THD.contiguous(), lse_HT.contiguous(),
            queries.bounds_device, keys.bounds_device, queries.longest, keys.longest,
            0.0, causal, state, torch.empty(0, device=query_THD.device), scale=scale,
        )  # fmt: skip
        return grads


CPU_KERNEL: Kernel = _CpuKernel()
CUDA_KERNEL: Kernel = CudaKernel()


def kernel_for(device: torch.device) -> Kernel:
    return CUDA_KERNEL if device.type == "cuda" else CPU_KERNEL
