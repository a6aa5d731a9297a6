"""What the float64 judge lets pass, and that it finds small mistakes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.runtime.float64 import errors, in_float64, judge
from tests.runtime.shared_prompt.models import CONFIGS, batch, checkpoint, gradients, repeated, tiny
from tests.runtime.shared_prompt.test_hybrids import HYBRIDS
from tests.runtime.shared_prompt.test_hybrids import tiny as tiny_hybrid

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")

INPUTS = batch([3, 2])
Trained = tuple[Tensor, dict[str, Tensor]]
Score = Callable[[nn.Module, tuple[Tensor, ...]], Tensor]


def whole(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return repeated(model, *inputs)[0]


def row_by_row(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """The same by other sums."""
    rows = range(len(inputs[0]))
    return torch.cat([repeated(model, *(x[r : r + 1] for x in inputs))[0] for r in rows])


def trained(model: nn.Module, score: Score = whole, inputs: Any = INPUTS) -> Trained:
    logprobs = score(model, inputs)
    weigh = torch.randn(logprobs.shape, generator=torch.Generator().manual_seed(5))
    return logprobs.detach(), gradients((logprobs * weigh).sum(), model)


def judged(ours: Trained, model: nn.Module) -> None:
    judge(ours, trained(model), in_float64(trained, model))


def refused(ours: Trained, model: nn.Module) -> None:
    with pytest.raises(AssertionError, match="is allowed"):
        judged(ours, model)


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: lambda name=name: tiny(name) for name in CONFIGS},  # type: ignore[misc]
    **{name: lambda name=name: tiny_hybrid(name) for name in HYBRIDS},  # type: ignore[misc]
}


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", MODELS)
def test_no_float32_is_left(name: str) -> None:
    """Other sums agree far beyond float32's 1e-7: norms, routers, states and grouped products."""
    model = MODELS[name]()
    at_once = in_float64(trained, model)
    by_rows = in_float64(lambda exact: trained(exact, row_by_row), model)
    torch.testing.assert_close(at_once, by_rows, rtol=1e-9, atol=1e-11)
    judged(trained(model, row_by_row), model)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_compute_again_in_float64(reentrant: bool) -> None:
    plain, model = tiny("llama"), tiny("llama")
    checkpoint(model, reentrant=reentrant)
    model.enable_input_require_grads()
    torch.testing.assert_close(
        in_float64(trained, model), in_float64(trained, plain), rtol=1e-12, atol=1e-14
    )


def test_the_inputs_and_torch_are_as_before() -> None:
    model, x = tiny("llama"), torch.ones(2, requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        in_float64(lambda *_: 1 / 0, model, x)
    seen = in_float64(
        lambda model, x: (next(model.parameters()), x, torch.ones(1).float()), model, x
    )
    assert {x.dtype for x in seen} == {torch.float64}
    assert seen[1].requires_grad
    assert seen[1].grad_fn is None
    assert next(model.parameters()).dtype == x.dtype == torch.ones(1).dtype == torch.float32
    generator = torch.Generator().manual_seed(1)
    drawn = in_float64(lambda: torch.randn(3, generator=generator))
    assert torch.equal(drawn.float(), torch.randn(3, generator=generator.manual_seed(1)))


@pytest.mark.draws(1)
@pytest.mark.parametrize("name", ["llama", "gpt-oss", "gemma2"])
def test_any_gradient_off_by_a_thousandth_is_found(name: str) -> None:
    model = tiny(name)
    logprobs, grown = trained(model)
    judged((logprobs, grown), model)
    for parameter, gradient in grown.items():
        refused((logprobs, {**grown, parameter: gradient * 1.001}), model)
    embeddings = "model.embed_tokens.weight"
    one_row = grown[embeddings].clone()
    one_row[INPUTS[0][0, -1]] *= 1.001
    refused((logprobs, {**grown, embeddings: one_row}), model)


def test_a_value_off_by_a_thousandth_is_found() -> None:
    model = tiny("llama")
    logprobs, grown = trained(model)
    logprobs[1, 2] *= 1.001
    refused((logprobs, grown), model)


def test_a_dropped_token_is_found() -> None:
    """Of the loss, in one row; and of what its completion sees of the prompt."""
    model = tiny("llama")
    lost = [x.clone() for x in INPUTS]
    lost[3][0, int(lost[3][0].sum()) - 1] = 0
    refused(trained(model, inputs=tuple(lost)), model)
    unseen = [x.clone() for x in INPUTS]
    unseen[1][0, int(unseen[1][0].argmax())] = 0
    refused(trained(model, inputs=tuple(unseen)), model)


def test_a_window_off_by_one_is_found() -> None:
    model = tiny("mistral with window")
    other = copy.deepcopy(model)
    other.config.sliding_window += 1
    refused(trained(other), model)


def test_targets_off_by_one_are_found() -> None:
    model = tiny("llama")
    moved = (*INPUTS[:2], INPUTS[2].roll(1, 1), INPUTS[3])
    refused(trained(model, inputs=moved), model)


def test_a_missing_gradient_and_other_shapes_are_found() -> None:
    model = tiny("llama")
    logprobs, grown = trained(model)
    del grown["lm_head.weight"]
    with pytest.raises(AssertionError, match="other tensors than asked"):
        judged((logprobs, grown), model)
    with pytest.raises(AssertionError):
        judge(torch.ones(2), torch.ones(2), torch.ones(2, 1).double())
    with pytest.raises(AssertionError):
        judge([None], [torch.ones(1)], [torch.ones(1).double()])


def test_nothing_passes_that_is_no_number() -> None:
    with pytest.raises(AssertionError):
        judge(torch.tensor([1.0, torch.nan]), torch.ones(2), torch.ones(2).double())
    with pytest.raises(AssertionError):
        judge(torch.ones(2), torch.tensor([1.0, torch.nan]), torch.ones(2).double())


def test_a_truth_in_float32_and_a_plain_pass_far_from_it_judge_nothing() -> None:
    with pytest.raises(AssertionError, match="truth is torch"):
        judge(torch.ones(2), torch.ones(2), torch.ones(2))
    with pytest.raises(AssertionError, match="the plain pass is"):
        judge(torch.ones(2), torch.tensor([1.0, 1.001]), torch.ones(2).double())


def test_small_values_are_held_to_the_largest_beside_them() -> None:
    """Biases of keys: their gradient is zero but for rounding."""
    truth = {"weight": torch.ones(4).double(), "bias": torch.zeros(4).double()}
    plain = {"weight": torch.ones(4), "bias": torch.zeros(4)}
    judge({**plain, "bias": torch.full((4,), 1e-9)}, plain, truth)
    with pytest.raises(AssertionError, match="bias"):
        judge({**plain, "bias": torch.full((4,), 1e-7)}, plain, truth)
    assert len(errors(plain, plain, truth)) == 4
    difference = torch.tensor(1e-7), torch.tensor(0.0), torch.tensor(0.0).double()
    judge(*difference, terms=1.0)
    with pytest.raises(AssertionError):
        judge(*difference)
