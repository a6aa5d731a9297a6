"""Compares the Triton kernels with PyTorch's tile operations; run where kernels can run.

On a GPU, or with TRITON_INTERPRET=1 set before this is imported.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from memlint_runtime.losses import tile_ops, triton_ops
from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform, SoftmaxState
from torch import Tensor

from tests.runtime.losses.plain import worst

TRANSFORMS = (
    LogitTransform(),
    LogitTransform(0.3, None, 0.7),
    LogitTransform(1.5, 4.0, 1.3),
)
SHAPES = ((5, 33), (3, 1), (2, 128), (1, 2048))


def check_all(device: str) -> int:
    """Number of comparisons made. Raises AssertionError where the two differ."""
    count = 0
    for (t, v), transform, biased, extras in itertools.product(
        SHAPES, TRANSFORMS, (False, True), (False, True)
    ):
        torch.manual_seed(count)
        bias = torch.randn(v, device=device) if biased else None
        if bias is not None and extras:
            bias[5::7] = -torch.inf  # entries that the vocabulary does not use
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.bfloat16, 1e-2)):
            _check_absorb(t, v, transform, bias, extras, dtype, tolerance, device)
            _check_gradient(t, v, transform, bias, extras, dtype, tolerance, device)
            count += 2
    return count


def _columns(t: int, v: int, device: str) -> Tensor:
    """Targets inside the tile, and before and behind it."""
    return (torch.arange(t, device=device) * 7) % (v + 4) - 2


def _check_absorb(
    t: int,
    v: int,
    transform: LogitTransform,
    bias: Tensor | None,
    extras: bool,
    dtype: torch.dtype,
    tolerance: float,
    device: str,
) -> None:
    blank = torch.empty(t, device=device)
    states = [SoftmaxState.empty(blank, weighted=extras, logit_sum=extras) for _ in range(2)]
    for step in range(3):  # the state goes on from tile to tile
        raw = torch.randn(t, v, device=device) * 3
        column = _columns(t, v, device) + step
        results = []
        for module, state in zip((triton_ops, tile_ops), states, strict=True):
            found, rescale = module.absorb_tile(
                raw.clone(), bias, transform, column, state, numerators=True, dtype=dtype
            )
            assert found is not None
            assert found.dtype == dtype
            results.append((found, rescale))
        for mine, theirs in zip(*results, strict=True):
            assert worst(mine, theirs) < tolerance
    mine, theirs = states
    for name in ("maximum", "others", "target", "weighted", "logit_sum"):
        ours, expected = getattr(mine, name), getattr(theirs, name)
        if expected is not None:
            assert not expected.isnan().any(), name
            seen = expected.isfinite()
            assert torch.equal(seen, ours.isfinite())
            if seen.any():
                assert worst(ours[seen], expected[seen]) < 2e-6, name


def _check_gradient(
    t: int,
    v: int,
    transform: LogitTransform,
    bias: Tensor | None,
    extras: bool,
    dtype: torch.dtype,
    tolerance: float,
    device: str,
) -> None:
    raw = torch.randn(t, v, device=device)
    coefficients = GradientCoefficients(*torch.randn(4, t, device=device).unbind())
    if not extras:
        coefficients = replace(coefficients, slope=None, everywhere=None)
    found = [
        module.tile_gradient(
            raw.clone(),
            bias,
            transform,
            _columns(t, v, device),
            torch.full((t,), 3.0, device=device),
            coefficients,
            dtype=dtype,
        )
        for module in (triton_ops, tile_ops)
    ]
    assert found[0].dtype == dtype
    assert worst(found[0], found[1]) < tolerance


def check_whole(device: str) -> None:
    """A pass through all layers with the kernels in place of PyTorch's operations."""
    from memlint_runtime.losses import statistics, token_statistics

    from tests.runtime.losses.plain import make_problem, plain_statistics

    own = statistics.tile_operations
    statistics.tile_operations = lambda head: (triton_ops.absorb_tile, triton_ops.tile_gradient)
    try:
        for workspace in (None, 60_000):
            problem = make_problem(20, 8, 70)
            hidden, weight = (
                leaf.detach().to(device).requires_grad_()
                for leaf in (problem.hidden, problem.weight)
            )
            target = problem.target.to(device)
            found = token_statistics(
                hidden, weight, target, softcap=3.0, entropy=True, workspace_bytes=workspace
            )
            plain = plain_statistics(hidden, weight, target, softcap=3.0)
            assert found.entropy is not None
            for mine, theirs in ((found.logprob, plain[0]), (found.entropy, plain[2])):
                assert worst(mine, theirs) < 1e-5
                ours, expected = (
                    torch.autograd.grad(values.square().sum(), [hidden, weight], retain_graph=True)
                    for values in (mine, theirs)
                )
                assert max(map(worst, ours, expected)) < 1e-5
    finally:
        statistics.tile_operations = own


if __name__ == "__main__":
    check_whole("cpu")
    print(check_all("cpu"))  # noqa: T201
