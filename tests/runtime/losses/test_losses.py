"""Every loss against its plain form: values and gradients in fp32, bf16's error, gradcheck."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime.losses import (
    bradley_terry_loss,
    distillation_loss,
    dpo_loss,
    policy_loss,
    tiles,
)
from torch import Tensor

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.cases import CASES, Case, Loss
from tests.runtime.losses.plain import make_problem, worst

B, D, V = 4, 12, 83
every_loss = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def problem(length: int = 9, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    made = make_problem(B * length, D, V, **options)
    hidden = made.hidden.detach().view(B, length, D).requires_grad_()
    return hidden, made.weight, made.target.view(B, length)


def bare(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
    return hidden, weight, {}


def agree(
    case: Case, target: Tensor, *leaves: Tensor, build: Callable[..., Any] = bare, **ours: Any
) -> None:
    """build: hidden states, weight and options of the head from the leaves. ours: options more."""

    def trained(run: Loss, *leaves: Tensor, **more: Any) -> Any:
        hidden, weight, head = build(*leaves)
        loss = run(hidden, weight, target, {**head, **more})
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return loss, torch.autograd.grad(loss * 1024.0, wanted)

    truth = in_float64(functools.partial(trained, case.plain), *leaves)
    judge(trained(case.ours, *leaves, **ours), trained(case.plain, *leaves), truth, terms=1.0)


@every_loss
def test_scaled_loss(case: Case) -> None:
    hidden, weight, target = problem()
    agree(case, target, hidden, weight)


@every_loss
def test_many_tiles_that_do_not_divide_the_tokens(case: Case) -> None:
    hidden, weight, target = problem(11)

    def capped(hidden: Tensor, weight: Tensor) -> Any:
        return hidden, weight, {"softcap": 4.0}

    # Room for a part of the tokens and of the vocabulary only, and for no kept gradient.
    agree(case, target, hidden, weight, build=capped, workspace_bytes=60_000)


@every_loss
def test_soft_cap_and_bias(case: Case) -> None:
    hidden, weight, target = problem()

    def biased(hidden: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return hidden, weight, {"bias": bias, "softcap": 3.0}

    agree(case, target, hidden, weight, torch.randn(V).requires_grad_(), build=biased)


@every_loss
def test_one_token(case: Case) -> None:
    hidden, weight, target = problem(1, ignored=False)
    agree(case, target, hidden, weight)


@every_loss
@pytest.mark.parametrize("frozen", ["head", "hidden"])
def test_frozen(case: Case, frozen: str) -> None:
    hidden, weight, target = problem()
    (weight if frozen == "head" else hidden).requires_grad_(False)
    agree(case, target, hidden, weight)


@every_loss
def test_not_contiguous(case: Case) -> None:
    hidden, _, target = problem(18)

    def strided(hidden: Tensor, wide: Tensor) -> Any:
        return hidden[:, ::2], wide.T, {}

    wide = (torch.randn(D, V) * 0.5).requires_grad_()
    agree(case, target[:, ::2], hidden, wide, build=strided)


@every_loss
def test_tied_head(case: Case) -> None:
    _, weight, target = problem()

    def tied(weight: Tensor) -> Any:
        return torch.tanh(weight[target.clamp(min=0)]), weight, {}

    agree(case, target, weight, build=tied)


@every_loss
def test_all_masked_has_no_gradient_and_is_as_plain(case: Case) -> None:
    hidden, weight, target = problem()
    target = torch.full_like(target, -100)
    loss = case.ours(hidden, weight, target, {})
    gradients = torch.autograd.grad(loss, [hidden, weight])
    plain = case.plain(hidden, weight, target, {})
    assert not any(gradient.any() for gradient in gradients)
    if plain.isnan():
        assert loss.isnan()
        return
    truth = in_float64(lambda *exact: case.plain(*exact, target, {}), hidden, weight)
    judge(loss, plain, truth, terms=1.0)


MEANS = ("cross_entropy", "label_smoothing", "z_loss", "token_weights", "dft", "all_at_once")
ZERO_WHEN_MASKED = [
    name
    for name in CASES
    # Of margins, not of tokens; and a mean of no tokens is PyTorch's.
    if not name.startswith(("dpo", "kto", "orpo", "cpo", "simpo")) and name not in MEANS
]


@pytest.mark.parametrize("name", ZERO_WHEN_MASKED)
def test_all_masked_is_zero(name: str) -> None:
    hidden, weight, target = problem()
    assert CASES[name].ours(hidden, weight, torch.full_like(target, -100), {}) == 0


@every_loss
@pytest.mark.parametrize(("native", "share"), [(False, 1.02), (True, 1.4)])
def test_bf16_errs_no_more_than_plain_bf16(
    case: Case, native: bool, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda: native)
    # Errors of single elements are luck; the loss's own is averaged over seeds, the gradients'
    # over elements.
    values: dict[str, list[float]] = {"ours": [], "plain": []}
    gradients: dict[str, list[list[float]]] = {"ours": [], "plain": []}
    for seed in range(8):
        hidden, weight, target = problem(17, dtype=torch.bfloat16, seed=seed)
        exact = [leaf.detach().double().requires_grad_() for leaf in (hidden, weight)]
        truth = case.plain(*exact, target, {})
        expected = torch.autograd.grad(truth, exact)
        for name, run in (("ours", case.ours), ("plain", case.plain)):
            loss = run(hidden, weight, target, {})
            values[name].append(float((loss - truth).detach().abs()))
            gradients[name].append(
                [
                    float((mine.double() - exact_one).square().mean())
                    for mine, exact_one in zip(
                        torch.autograd.grad(loss, [hidden, weight]), expected, strict=True
                    )
                ]
            )
    ours, plain = (torch.tensor(gradients[name]).mean(0).sqrt() for name in ("ours", "plain"))
    assert sum(values["ours"]) <= share * sum(values["plain"]) + 1e-5
    assert (ours <= plain * share).all(), (ours, plain)


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("dft", "cispo")])
def test_gradcheck(name: str) -> None:
    # Not those that weigh tokens by detached probabilities: they are no function's derivative.
    case = CASES[name]
    made = make_problem(B * 2, 3, 7, dtype=torch.float64)
    hidden = made.hidden.detach().view(B, 2, 3).requires_grad_()
    target = made.target.view(B, 2)
    for head in ({}, {"softcap": 2.0, "workspace_bytes": 20_000}):
        assert torch.autograd.gradcheck(
            lambda hidden, weight, head=head: case.ours(hidden, weight, target, head),
            (hidden, made.weight),
            nondet_tol=1e-12,
        )


def test_bradley_terry() -> None:
    chosen, rejected, margin = torch.randn(3, 6, dtype=torch.float64)
    chosen.requires_grad_()
    ours = bradley_terry_loss(chosen, rejected, margin_B=margin, center_coefficient=0.1)
    plain = -torch.sigmoid(chosen - rejected - margin).log() + 0.1 * (chosen + rejected) ** 2
    assert worst(ours, plain) < 1e-12
    assert torch.autograd.gradcheck(lambda c: bradley_terry_loss(c, rejected), (chosen,))


def test_says_what_is_missing() -> None:
    scores = torch.zeros(2)
    with pytest.raises(ValueError, match="needs chosen_tokens_B"):
        dpo_loss(scores, scores, scores, scores, form="ipo")
    with pytest.raises(ValueError, match="label_smoothing in"):
        dpo_loss(scores, scores, scores, scores, form="robust", label_smoothing=0.5)
    token = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="give reference_logprobs_BL"):
        policy_loss(token, scores, token, beta=0.1)
    with pytest.raises(ValueError, match="max_completion_length: give it"):
        policy_loss(token, scores, token, form="dr_grpo")
    with pytest.raises(ValueError, match="both heads share a vocabulary"):
        distillation_loss(
            torch.zeros(3, 2), torch.zeros(9, 2), torch.zeros(3, 2), torch.zeros(8, 2)
        )
    with pytest.raises(ValueError, match="both models saw the same tokens"):
        distillation_loss(
            torch.zeros(3, 2), torch.zeros(8, 2), torch.zeros(4, 2), torch.zeros(8, 2)
        )
