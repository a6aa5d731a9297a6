"""Compares the Triton kernels with PyTorch's tile operations; run where kernels can run.

On a GPU, or with TRITON_INTERPRET=1 set before this is imported.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from memlint_runtime.losses import planning, statistics, tile_ops, triton_ops
from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform, SoftmaxState
from torch import Tensor

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.plain import worst

TRANSFORMS = (
    LogitTransform(),
    LogitTransform(0.3, None, 0.7),
    LogitTransform(1.5, 4.0, 1.3),
)
SHAPES = ((5, 33), (3, 1), (2, 128), (1, 2048), (2, 9001))


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
    states = [
        SoftmaxState.empty(like, weighted=extras, logit_sum=extras)
        for like in (blank, blank, blank.double())
    ]
    for step in range(3):  # the state goes on from tile to tile
        raw = torch.randn(t, v, device=device) * 3
        column = _columns(t, v, device) + step
        results = []
        for module, state in zip((triton_ops, tile_ops, tile_ops), states, strict=True):
            exact = state is states[2]
            found, rescale = module.absorb_tile(
                raw.double() if exact else raw.clone(),
                bias if bias is None or not exact else bias.double(),
                transform,
                column,
                state,
                numerators=v <= triton_ops.LARGEST_WIDTH,
                dtype=torch.float64 if exact else dtype,
            )
            if v <= triton_ops.LARGEST_WIDTH:
                assert found is not None
                assert found.dtype == (torch.float64 if exact else dtype)
            results.append((rescale, rescale if found is None else found))
        for mine, theirs in zip(*results[:2], strict=True):
            assert worst(mine, theirs) < tolerance
    _check_states(*states, terms=10.0 * v)


def _check_states(
    mine: SoftmaxState, theirs: SoftmaxState, exact: SoftmaxState, *, terms: float
) -> None:
    """terms: the size of the logits whose sum may cancel."""
    for name in ("maximum", "others", "target", "weighted", "logit_sum"):
        ours, expected, truth = (getattr(state, name) for state in (mine, theirs, exact))
        if expected is not None:
            assert not expected.isnan().any(), name
            seen = expected.isfinite()
            assert torch.equal(seen, ours.isfinite())
            if seen.any():
                cancels = terms if name in ("weighted", "logit_sum") else 0.0
                judge(ours[seen], expected[seen], truth[seen], terms=cancels)


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
    if dtype == torch.bfloat16:
        # Logits kept in half precision, a part of a wider chunk's, with the gradient over them.
        chunk = torch.randn(t, v + 3, device=device).to(dtype)
        view = chunk[:, 1 : v + 1]
        rest = bias, transform, _columns(t, v, device), torch.full((t,), 3.0, device=device)
        expected = tile_ops.tile_gradient(view.float(), *rest, coefficients, dtype=dtype)
        over = triton_ops.tile_gradient(view, *rest, coefficients, dtype=dtype)
        assert over.data_ptr() == view.data_ptr()
        assert worst(view, expected) < tolerance


def check_whole(device: str) -> None:
    """A pass through all layers with the kernels in place of PyTorch's operations."""
    tile_kernels = {"tile_operations": lambda _: (triton_ops.absorb_tile, triton_ops.tile_gradient)}
    _check_pass(device, tile_kernels)
    _check_chunks(device, tile_kernels)
    _check_half_logits(device, tile_kernels)


def _check_pass(device: str, kernels: dict[str, Any]) -> None:
    from memlint_runtime.losses import token_statistics

    from tests.runtime.losses.plain import make_problem, plain_statistics

    with patch.multiple(statistics, **kernels):
        # Room for a kept gradient, for none, and for small tiles.
        for workspace in (None, 60_000, 10_000):
            problem = make_problem(20, 8, 70)
            hidden, weight = (
                leaf.detach().to(device).requires_grad_()
                for leaf in (problem.hidden, problem.weight)
            )
            target = problem.target.to(device)
            found = token_statistics(
                hidden, weight, target, softcap=3.0, entropy=True, workspace_bytes=workspace
            )
            assert found.entropy is not None

            def plain(*leaves: Tensor, target: Tensor = target) -> Any:
                logprob, _, entropy, _ = plain_statistics(*leaves, target, softcap=3.0)
                return _grown((logprob, entropy), leaves)

            leaves = (hidden, weight)
            ours = _grown((found.logprob, found.entropy), leaves)
            judge(ours, plain(*leaves), in_float64(plain, *leaves))


def _check_chunks(device: str, kernels: dict[str, Any]) -> None:
    """Gradients made in the forward pass, in place over the logits of chunks."""
    from memlint_runtime.losses import cross_entropy, in_forward

    from tests.runtime.losses.plain import make_problem, plain_logits

    kernels = {**kernels, "has_triton": lambda _: True}
    made = make_problem(150, 8, 5000)
    leaves = [leaf.detach().to(device).requires_grad_() for leaf in (made.hidden, made.weight)]
    target = made.target.to(device)

    def plain(*leaves: Tensor) -> Any:
        logits = plain_logits(*leaves, softcap=3.0)
        loss = torch.nn.functional.cross_entropy(logits, target, label_smoothing=0.1)
        return loss, torch.autograd.grad(loss, leaves)

    with patch.multiple(in_forward, **kernels), patch.object(planning, "WHOLE_BYTES", 0):
        loss = cross_entropy(
            *leaves, target, softcap=3.0, label_smoothing=0.1, workspace_bytes=1_700_000
        )
    made_by = loss.grad_fn
    while made_by is not None and "SummedLoss" not in made_by.name():
        made_by = next((one for one, _ in made_by.next_functions if one is not None), None)
    assert made_by is not None  # below the mark for a mean of no labels
    judge((loss, torch.autograd.grad(loss, leaves)), plain(*leaves), in_float64(plain, *leaves))


def _check_half_logits(device: str, kernels: dict[str, Any]) -> None:
    """Tiles of logits in bf16, with what is made of them written over them: as exact as plain."""
    from memlint_runtime.losses import cross_entropy, passes, tiles

    from tests.runtime.losses.plain import make_problem

    made = make_problem(150, 64, 700, dtype=torch.bfloat16)
    leaves = [leaf.detach().to(device).requires_grad_() for leaf in (made.hidden, made.weight)]
    target = made.target.to(device)
    types: set[torch.dtype] = set()
    absorb = kernels["tile_operations"](None)[0]

    def watched(raw: Tensor, *rest: Any, **more: Any) -> Any:
        types.add(raw.dtype)
        found, rescale = absorb(raw, *rest, **more)
        assert found is raw
        return found, rescale

    def plain(*leaves: Tensor) -> Any:
        loss = torch.nn.functional.cross_entropy((leaves[0] @ leaves[1].T).float(), target)
        return torch.autograd.grad(loss, leaves)

    operations = watched, kernels["tile_operations"](None)[1]
    with (
        patch.multiple(statistics, tile_operations=lambda _: operations),
        patch.object(passes, "has_triton", lambda _: True),
        patch.object(tiles.Head, "has_half_matmul", True),
        patch.object(tiles, "_cpu_multiplies_bfloat16", lambda: True),
        patch.object(planning, "WHOLE_BYTES", 0),
    ):
        loss = cross_entropy(*leaves, target, workspace_bytes=100_000)
        ours = torch.autograd.grad(loss, leaves)
    assert types == {torch.bfloat16}
    truth = in_float64(plain, *leaves)
    for mine, theirs, exact in zip(ours, plain(*leaves), truth, strict=True):
        assert worst(mine.double(), exact) <= 1.3 * worst(theirs.double(), exact)


def _grown(values: tuple[Tensor, ...], leaves: tuple[Tensor, ...]) -> Any:
    """Each value, and the gradients of its squares."""
    return [(x, torch.autograd.grad(x.square().sum(), leaves, retain_graph=True)) for x in values]


if __name__ == "__main__":
    check_whole("cpu")
    print(check_all("cpu"))  # noqa: T201
