"""One look before the first use: does this GPU's attention path give what the oracle gives?

A small tree of depth 3, or rows that part at once where the inputs' do, goes through the chosen
path in the model's own type, head counts and head dimension, and through the dense oracle in
float32; values and all gradients must agree as closely as the oracle itself does in that type. Once
for each kind of layer and GPU: 578 tokens, and the compilation that FlexAttention needs anyway.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from memlint_runtime.attention import (
    AttentionPath,
    ForestAttention,
    attend_dense_packed,
    dense_mask,
)
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree

__all__ = ["errors_of_path", "verify_path"]

# Twice the plain path's own rounding, and room for luck: a wrong mask is off by far more.
TOLERATED = 4.0


def verify_path(
    attention: ForestAttention,
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    window: int | None,
    softcap: float | None,
    *,
    sinks: bool = False,
) -> None:
    """Raises RuntimeError where the path that these inputs would take disagrees with the oracle."""
    path = attention.choose_path(query_THD, value_TKD, window=window, softcap=softcap)
    windowed = attention.window_that_counts(window) is not None
    _verify(
        path,
        query_THD.device,
        query_THD.dtype,
        (query_THD.shape[1], key_TKD.shape[1], query_THD.shape[2]),
        windowed,
        softcap,
        sinks,
        attention.forest.depth > 1,
    )


@cache
def _verify(
    path: AttentionPath,
    device: torch.device,
    dtype: torch.dtype,
    sizes: tuple[int, int, int],
    windowed: bool,
    softcap: float | None,
    sinks: bool,
    branches: bool,
) -> None:
    # Layers run under checkpointing, autocast or no_grad; the test must not.
    with (
        _disable_current_modes(),
        saved_tensors_hooks(lambda x: x, lambda x: x),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        found, plain = errors_of_path(
            path,
            device,
            dtype,
            sizes,
            window=40 if windowed else None,
            softcap=softcap,
            sinks=sinks,
            branches=branches,
        )
    worst = max(f / max(p, 1e-6) for f, p in zip(found, plain, strict=True))
    if worst > TOLERATED:
        raise RuntimeError(
            f"attention path {path!r} disagrees with the plain softmax on {device} in {dtype}: "
            f"errors {found} of output and gradients, where the plain path has {plain}. "
            "Please report this with your PyTorch version; until then score prompts unshared"
        )


def errors_of_path(
    path: AttentionPath,
    device: torch.device,
    dtype: torch.dtype,
    sizes: tuple[int, int, int],
    *,
    window: int | None = None,
    softcap: float | None = None,
    sinks: bool = False,
    branches: bool = True,
) -> tuple[list[float], list[float]]:
    """Relative errors of output and gradients against float32: of the path, and of the dense
    oracle in the path's own type. sizes: query heads, key heads, head dimension. sinks: one for
    each head, and its gradient too. branches: whether rows have tokens in common."""
    tree = example_tree(branches=branches).to(device)
    heads, key_heads, width = sizes
    draw = torch.Generator(device="cpu").manual_seed(0)
    shapes = [(heads, width), (key_heads, width), (key_heads, width), (heads, width)]
    exact = [torch.randn(tree.num_tokens, *s, generator=draw).to(device) for s in shapes]
    if sinks:
        exact.insert(3, torch.randn(heads, generator=draw).to(device))
    given = [x.to(dtype) for x in exact]
    sees = dense_mask(tree, window).to(device)
    scale = width**-0.5

    def oracle(q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None = None) -> Tensor:
        return attend_dense_packed(
            q, k, v, sees, scale=scale, softcap=softcap, sinks=sink, precision=q.dtype
        )

    def chosen(q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None = None) -> Tensor:
        return ForestAttention(tree, forced=path)(
            q, k, v, scale=scale, window=window, softcap=softcap, sinks=sink
        )

    wanted = _outcome(oracle, [x.float() for x in given])
    return (_errors(_outcome(chosen, given), wanted), _errors(_outcome(oracle, given), wanted))


def _outcome(run: object, tensors: list[Tensor]) -> list[Tensor]:
    *inputs, grad = tensors
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = run(*inputs)  # type: ignore[operator]
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]


def _errors(found: list[Tensor], wanted: list[Tensor]) -> list[float]:
    return [float((f.float() - w).norm() / w.norm()) for f, w in zip(found, wanted, strict=True)]


def example_tree(*, branches: bool = True) -> PrefixTree:
    """Two prompts of different lengths, turns under one of them, completions under all; where
    nothing branches, a row of each prompt."""
    rows = [
        [*range(1, 150), *turn, 200 + c, *range(300, 300 + length)]
        for turn in (range(150, 180), range(190, 260))
        for c, length in enumerate((20, 64, 1))
    ] + [[*range(500, 560), 600 + c, *range(700, 730)] for c in range(3)]
    rows = rows if branches else [rows[1], rows[-1]]
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = ids != 0
    scored = mask.clone()
    scored[:, 0] = False
    return build_tree(ids, mask, scored, keep_every_token=True)
