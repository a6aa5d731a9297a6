"""What the CUDA operators of flash attention promise, by plain arithmetic on a CPU.

They take the operators' own arguments and check those that have to agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from memlint_runtime.attention.kernels.flash import CudaRuns
from torch import Tensor


def flash(query: Tensor, key: Tensor, value: Tensor, *args: Any, scale: float, **reach: Any) -> Any:
    cu_q, cu_k, longest_q, longest_k, dropout, causal, debug = args
    assert (dropout, debug) == (0.0, False)
    assert cu_q.dtype == cu_k.dtype == torch.int32
    assert longest_q == int(cu_q.diff().max())
    assert longest_k == int(cu_k.diff().max())
    out, lse = torch.empty_like(query), query.new_empty(query.shape[1], query.shape[0])
    for q, k in _runs(cu_q, cu_k):
        scores = _scores(query[q], key[k], causal, scale, **reach)
        lse[:, q] = torch.logsumexp(scores, -1)
        out[q] = (torch.softmax(scores, -1) @ _wide(value[k], query)).transpose(0, 1)
    empty = query.new_empty(0)
    return out, lse, torch.zeros(2, dtype=torch.uint64), empty, empty


def flash_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, *args: Any,
    scale: float, **reach: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Probabilities from the log-sum-exp that it is given, as flash kernels do."""
    cu_q, cu_k, _, _, _, causal, state, _ = args
    assert state.dtype == torch.uint64
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    groups = query.shape[1] // key.shape[1]
    for q, k in _runs(cu_q, cu_k):
        p = (_scores(query[q], key[k], causal, scale, **reach) - lse[:, q, None]).exp()
        g = grad[q].transpose(0, 1)
        delta = (g * out[q].transpose(0, 1)).sum(-1, keepdim=True)
        ds = p * (g @ _wide(value[k], query).mT - delta) * scale
        grads[0][q] = (ds @ _wide(key[k], query)).transpose(0, 1)
        grads[1][k] = (
            (ds.mT @ query[q].transpose(0, 1)).unflatten(0, (-1, groups)).sum(1).transpose(0, 1)
        )
        grads[2][k] = (p.mT @ g).unflatten(0, (-1, groups)).sum(1).transpose(0, 1)
    return grads


RUNS = partial(CudaRuns, forward_operator=flash, backward_operator=flash_backward)


@contextmanager
def in_place_of_the_operators() -> Iterator[None]:
    """Within, the operators themselves run on a CPU, so that a compiler can see their calls."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", flash, "CPU")
    library.impl("_flash_attention_backward", flash_backward, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _runs(cu_q: Tensor, cu_k: Tensor) -> Iterator[tuple[slice, slice]]:
    bounds = [torch.stack([cu[:-1], cu[1:]], 1).tolist() for cu in (cu_q, cu_k)]
    for q, k in zip(*bounds, strict=True):
        yield slice(*q), slice(*k)


def _wide(x: Tensor, query: Tensor) -> Tensor:
    return x.repeat_interleave(query.shape[1] // x.shape[1], 1).transpose(0, 1)


def _scores(
    query: Tensor,
    key: Tensor,
    causal: bool,
    scale: float,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> Tensor:
    scores = query.transpose(0, 1) @ _wide(key, query).mT * scale
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool)
    if causal:
        hidden = torch.ones_like(hidden).triu(1)
    if window_size_left is not None and window_size_right is not None:
        assert not causal
        place = torch.arange(scores.shape[-1])
        before = place[:, None] - place
        hidden = (before > window_size_left) | (-before > window_size_right)
    return scores.masked_fill(hidden, float("-inf"))
