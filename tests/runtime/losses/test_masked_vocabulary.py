"""A bias of minus infinity masks entries of the vocabulary: as if the head did not have them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime import token_logprobs
from memlint_runtime.losses import OutputHead, distillation_loss
from torch import Tensor

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.plain import make_problem, plain_statistics

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
    upstream = torch.randn(2, len(target)) * 3

    def trained(run: Any, *leaves: Tensor) -> Any:
        return [
            (values, torch.autograd.grad(values, leaves, by.to(values), retain_graph=True))
            for values, by in zip(run(*leaves), upstream, strict=True)
        ]

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return score(hidden, weight, target, bias=bias, entropy=True, workspace_bytes=workspace)

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor) -> Any:
        where = torch.where(target < 0, target, place[target.clamp_min(0)])
        logprob, _, entropy, _ = plain_statistics(hidden, weight[left], where, bias=bias[left])
        return logprob, entropy

    leaves = (hidden, weight, bias)
    truth = in_float64(lambda *exact: trained(plain, *exact), *leaves)
    judge(trained(ours, *leaves), trained(plain, *leaves), truth, terms=1.0)


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

    def trained(kept: Any, workspace: int | None, *leaves: Tensor) -> Any:
        hidden, weight, bias, watched, taught = leaves
        student = OutputHead(weight[kept], bias[kept])
        teacher = OutputHead(taught[kept], masking_bias(-torch.inf).to(taught)[kept])
        options: Any = {"divergence": divergence, "workspace_bytes": workspace}
        loss = distillation_loss(hidden, student, watched, teacher, **options)
        return loss, torch.autograd.grad(loss.sum(), leaves[:3])

    leaves = (hidden, weight, bias, watched, taught)
    truth = in_float64(lambda *exact: trained(left, None, *exact), *leaves)
    for workspace in (None, 60_000):
        found = trained(slice(None), workspace, *leaves)
        judge(found, trained(left, None, *leaves), truth, terms=1.0)


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
