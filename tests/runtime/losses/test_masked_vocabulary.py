"""A bias of minus infinity masks entries of the vocabulary: as if the head did not have them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime import token_logprobs
from memlint_runtime.losses import OutputHead, distillation_loss
from torch import Tensor

from tests.runtime.losses.plain import make_problem, worst

VOCABULARY = 101
MASKED = torch.arange(VOCABULARY) % 5 == 3
SMALL = 40_000  # bytes: many tiles, and no room for a kept gradient


def masking_bias(lowest: float) -> Tensor:
    return torch.linspace(-1, 1, VOCABULARY).masked_fill(MASKED, lowest).requires_grad_()


@pytest.mark.parametrize("workspace", [None, SMALL], ids=["kept", "recomputed"])
@pytest.mark.parametrize("lowest", [-torch.inf, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("compiled", [False, True])
def test_log_probabilities_and_entropies(
    lowest: float, workspace: int | None, compiled: bool
) -> None:
    problem = make_problem()
    hidden, weight, bias = problem.hidden, problem.weight, masking_bias(lowest)
    left = ~MASKED
    place = left.cumsum(0) - 1
    target = torch.where(MASKED[problem.target.clamp_min(0)], 0, problem.target)
    score: Any = token_logprobs
    if compiled:
        score = torch.compile(token_logprobs, backend="eager")
    ours = score(hidden, weight, target, bias=bias, entropy=True, workspace_bytes=workspace)
    plain = token_logprobs(
        hidden,
        weight[left],
        torch.where(target < 0, target, place[target.clamp_min(0)]),
        bias=bias[left],
        entropy=True,
    )
    for mine, theirs in zip(ours, plain, strict=True):
        assert worst(mine, theirs) < 1e-5
        by = torch.randn_like(mine) * 3
        found = torch.autograd.grad(mine, [hidden, weight, bias], by, retain_graph=True)
        expected = torch.autograd.grad(theirs, [hidden, weight, bias], by, retain_graph=True)
        assert max(map(worst, found, expected)) < 1e-5


def test_a_masked_target_keeps_the_others_entropy() -> None:
    problem = make_problem(ignored=False)
    target = torch.full_like(problem.target, 3)
    logprob, entropy = token_logprobs(
        problem.hidden, problem.weight, target, bias=masking_bias(-torch.inf), entropy=True
    )
    assert logprob.isneginf().all()
    assert entropy.isfinite().all()


@pytest.mark.parametrize("divergence", ["forward_kl", "reverse_kl", "jensen_shannon"])
def test_distillation_where_both_mask(divergence: Any) -> None:
    problem = make_problem(ignored=False)
    hidden, weight = problem.hidden, problem.weight
    watched, taught = torch.randn(37, 24), torch.randn(VOCABULARY, 24)
    bias, left = masking_bias(-torch.inf), ~MASKED

    def loss(kept: Any, workspace: int | None) -> Tensor:
        student = OutputHead(weight[kept], bias[kept])
        teacher = OutputHead(taught[kept], masking_bias(-torch.inf)[kept])
        options: Any = {"divergence": divergence, "workspace_bytes": workspace}
        return distillation_loss(hidden, student, watched, teacher, **options)

    expected = loss(left, None)
    for workspace in (None, 60_000):
        found = loss(slice(None), workspace)
        assert worst(found, expected) < 1e-5
        leaves = [hidden, weight, bias]
        mine = torch.autograd.grad(found.sum(), leaves)
        theirs = torch.autograd.grad(expected.sum(), leaves, retain_graph=True)
        assert max(map(worst, mine, theirs)) < 1e-5


@pytest.mark.parametrize(
    ("divergence", "student_masks", "is_finite"),
    [
        ("forward_kl", True, False),
        ("forward_kl", False, True),
        ("reverse_kl", True, True),
        ("reverse_kl", False, False),
        ("jensen_shannon", True, True),
        ("jensen_shannon", False, True),
    ],
)
def test_distillation_where_one_masks(
    divergence: Any, student_masks: bool, is_finite: bool
) -> None:
    problem = make_problem(ignored=False)
    masks = OutputHead(problem.weight, masking_bias(-torch.inf))
    heads = (masks, problem.weight) if student_masks else (problem.weight, masks)
    watched = torch.randn(problem.hidden.shape)
    found = distillation_loss(problem.hidden, heads[0], watched, heads[1], divergence=divergence)
    assert bool(found.isfinite().all()) is is_finite
    assert not found.isnan().any()
    if is_finite:
        (gradient,) = torch.autograd.grad(found.sum(), problem.hidden)
        assert gradient.isfinite().all()
