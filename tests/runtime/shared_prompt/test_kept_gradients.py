"""What is kept of prompts between calls: which call gets what, and where its gradients go."""

from __future__ import annotations

import copy

import pytest
import torch
from memlint_runtime.shared_prompt import kept
from memlint_runtime.shared_prompt.kept import KeptPrompt, KeptPrompts, prompts_of, version_of
from memlint_runtime.shared_prompt.runs import PaddedRows, joined
from memlint_runtime.trl.grouping import calls_of_cut_prompts, grouped_micro_batches
from torch import Tensor

pytestmark = pytest.mark.usefixtures("_short_prompts_too")


def rows_of(*completions: int, prompt: int = 13, width: int = 24) -> PaddedRows:
    """Rows of a prompt with completions of these lengths, all scored, padded on the right."""
    ids = torch.arange(1, width + 1).repeat(len(completions), 1)
    mask = torch.stack([torch.arange(width) < prompt + tokens for tokens in completions])
    return PaddedRows(ids, mask, mask & (torch.arange(width) >= prompt))


PROMPT = prompts_of(rows_of(1))[0]
A, B, C = (letter * len(PROMPT) for letter in (b"a", b"b", b"c"))


def kept_with(weight: Tensor, calls: list[PaddedRows | None], tokens: int = 3) -> KeptPrompts:
    prompts = KeptPrompts()
    prompts.expect([{PROMPT: call} for call in calls])
    prompts.keep(PROMPT, KeptPrompt.of(tokens, {0: (weight * 2, weight * 3)}))
    return prompts


def one_call(prompts: KeptPrompts, factor: float = 1.0) -> Tensor:
    """The value of a call by itself, whose gradient of keys is 1 in every place."""
    keys, _ = prompts.take(PROMPT, 1)
    value = (keys.sum() * factor).expand(1, 24)
    return prompts.hand_out(PROMPT, [rows_of(1)], (value,))[0][0, 0]


def test_a_call_that_never_came_is_noticed() -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None, None])
    keys, values = prompts.take(PROMPT, 1)
    (own,) = prompts.hand_out(PROMPT, [rows_of(1)], ((keys.sum() + values.sum()).view(1, 1),))
    own.sum().backward()
    assert weight.grad is None
    assert prompts.waiting
    other = copy.deepcopy(prompts)
    assert not other.waiting
    with pytest.raises(RuntimeError, match="1 prompts were kept for further micro-batches"):
        prompts.expect([])
    assert not prompts.waiting
    prompts.expect([])


def test_the_last_call_sends_all_gradients_back() -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None] * 3)
    for call in range(3):
        assert weight.grad is None
        keys, values = prompts.take(PROMPT, 1)
        value = (keys.sum() * (call + 1) + values.sum()).expand(1, 24)
        assert prompts.ready(PROMPT) is None
        (own,) = prompts.hand_out(PROMPT, [rows_of(1)], (value,))
        own[0, 0].backward()
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * (1 + 2 + 3) + 3 * 3))
    assert not prompts.waiting
    prompts.expect([])


def test_micro_batches_hold_one_call_of_each_prompt() -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None] * 2)
    for left in (1, 0):
        prompts.begin()
        assert prompts.expects(PROMPT, rows_of(1))
        one_call(prompts).backward()
        assert not prompts.expects(PROMPT, rows_of(1))
        assert prompts.waiting == bool(left)
    prompts.begin()
    assert not prompts.expected
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * 2))


@pytest.mark.parametrize("missing", ["call", "backward pass"])
@pytest.mark.parametrize("together", [False, True])
def test_a_loss_without_its_call_sends_what_the_earlier_ones_left(
    missing: str, together: bool
) -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    calls = [rows_of(1), rows_of(1)]
    prompts = kept_with(weight, [*calls] if together else [None] * 2, tokens=12)
    prompts.begin()
    if together:
        keys, _ = prompts.take(PROMPT, 2)
        first = prompts.hand_out(PROMPT, calls, (keys.sum().expand(2, 24),))[0][0, 0]
    else:
        first = one_call(prompts)
    prompts.settled(first).backward()
    assert weight.grad is None
    prompts.begin()
    if missing == "backward pass":
        if together:
            assert prompts.ready(PROMPT) is not None
        else:
            one_call(prompts)
    loss = torch.ones((), requires_grad=True)
    settled = prompts.settled(loss)
    assert torch.equal(settled, loss)
    settled.backward()
    assert torch.equal(loss.grad, torch.ones(()))
    assert torch.equal(weight.grad, torch.full_like(weight, 2))
    prompts.begin()  # nothing is owed
    assert prompts.settled(loss) is loss


@pytest.mark.parametrize("missing", ["call", "backward pass"])
def test_what_no_loss_sends_is_noticed_before_the_optimizer_steps(missing: str) -> None:
    prompts = kept_with(torch.ones(3, 1, 2, requires_grad=True), [None] * 2)
    prompts.begin()
    one_call(prompts).backward()
    prompts.begin()
    if missing == "backward pass":
        one_call(prompts)
    assert prompts.owed == 1
    with pytest.raises(RuntimeError, match="had no backward pass: their gradients are not compl"):
        prompts.require_settled()
    prompts.require_settled()


@pytest.mark.parametrize("last_call", [True, False])
def test_any_later_micro_batch_sends_what_calls_that_went_together_left(last_call: bool) -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    calls = [rows_of(2), rows_of(2), rows_of(9)]
    prompts = kept_with(weight, [*calls], tokens=12)
    prompts.begin()
    keys, _ = prompts.take(PROMPT, 2)
    prompts.hand_out(PROMPT, calls[:2], (keys.sum().expand(2, 24),))[0][0, 0].backward()
    prompts.begin()  # its loss has no backward pass
    assert prompts.ready(PROMPT) is not None
    prompts.begin()
    loss = one_call(prompts) if last_call else torch.ones((), requires_grad=True)
    prompts.settled(loss).backward()
    assert prompts.owed == 0
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * (1 + last_call)))


def test_gradients_that_are_asked_for_are_not_sent() -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None] * 2)
    one_call(prompts).backward()
    last = one_call(prompts)
    torch.autograd.grad(last, [weight], retain_graph=True)
    assert prompts.owed == 1
    last.backward(retain_graph=True)
    assert prompts.owed == 0
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * 2))
    last.backward()
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * 3))  # the earlier call's once


def test_a_prompt_of_other_weights_is_not_used() -> None:
    prompts = kept_with(torch.ones(3, 1, 2), [None] * 2)
    assert prompts.find(PROMPT) is not None
    with pytest.raises(RuntimeError, match="parameters changed between the micro-batches"):
        prompts.find(PROMPT, 1)
    with pytest.raises(RuntimeError, match="parameters changed between the micro-batches"):
        prompts.ready(PROMPT, 1)
    layer = torch.nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    before = version_of(layer)
    torch.optim.SGD(layer.parameters(), 0.1).zero_grad()
    assert version_of(layer) == before
    with torch.no_grad():
        layer.weight.add_(1.0)
    assert version_of(layer) != before


def test_micro_batches_may_have_one_backward_pass() -> None:
    """A trainer that adds up its losses: the prompt's gradients are the last to go back."""
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None] * 3)
    losses = []
    for factor in (1.0, 2.0, 4.0):
        prompts.begin()
        losses.append(one_call(prompts, factor))
    torch.stack(losses).sum().backward()
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * 7))
    prompts.expect([])


def test_a_gradient_that_comes_too_late_is_an_error() -> None:
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [None] * 2)
    early = one_call(prompts)
    one_call(prompts).backward()
    with pytest.raises(RuntimeError, match="came after those of its prompt were sent back"):
        early.backward()


def test_other_rows_than_those_scored_ahead_are_none_of_a_prompt_s_calls() -> None:
    calls = [rows_of(2), rows_of(2), rows_of(2)]
    prompts = kept_with(torch.ones(3, 1, 2, requires_grad=True), [*calls], tokens=12)
    prompts.begin()
    assert prompts.expects(PROMPT, rows_of(1))  # these go alone, against the prompt that is kept
    assert len(prompts.calls_together(PROMPT, rows_of(1), None)) == 1
    assert len(prompts.calls_together(PROMPT, calls[0], None)) == 3
    keys, _ = prompts.take(PROMPT, 2)
    prompts.hand_out(PROMPT, calls[:2], (keys.sum().expand(2, 24),))
    prompts.begin()
    assert not prompts.expects(PROMPT, rows_of(1))
    prompts.begin()  # its values are for nobody
    assert prompts.ready(PROMPT) is None
    assert prompts.expects(PROMPT, rows_of(1))


def test_calls_that_go_together_get_their_own_values_and_send_all_gradients_at_the_last() -> None:
    calls = [rows_of(2), rows_of(3, 1), rows_of(2, width=20)]
    weight = torch.ones(3, 1, 2, requires_grad=True)
    prompts = kept_with(weight, [*calls], tokens=12)
    together = prompts.calls_together(PROMPT, calls[0], None)
    assert [len(call.ids) for call in together] == [1, 2]  # 6 tokens of at most 6
    keys, _ = prompts.take(PROMPT, 2)
    joined_rows = joined(together)
    value = keys.sum() * torch.arange(72.0).view(3, 24)
    flag = torch.ones(3, 24, dtype=torch.bool)
    first, first_flag = prompts.hand_out(PROMPT, together, (value, flag))
    assert torch.equal(joined_rows.ids, torch.cat([calls[0].ids, calls[1].ids]))
    assert torch.equal(first, value[:1])
    assert first_flag.dtype == torch.bool
    first.mul_(2.0)  # as any tensor that a forward pass returns
    first[0, 1].mul(0.5).backward()
    assert not prompts.expects(PROMPT, rows_of(9, 9))
    assert prompts.expects(PROMPT, rows_of(3, 1))
    ready = prompts.ready(PROMPT)
    assert ready is not None
    assert torch.equal(ready[0], value[1:])
    kept_prompt = prompts.find(PROMPT)
    assert kept_prompt is not None
    assert kept_prompt.shared.given[0].grad is None  # nothing has gone through the branches yet
    ready[0][1, 0].backward()
    assert torch.equal(kept_prompt.shared.given[0].grad, torch.full((3, 1, 2), 1.0 + 48.0))
    assert weight.grad is None

    keys, _ = prompts.take(PROMPT, 1)
    narrow = prompts.hand_out(PROMPT, [calls[2]], (keys.sum().expand(1, 20),))
    narrow[0][0, 3].backward()
    assert torch.equal(weight.grad, torch.full_like(weight, 2 * (1 + 48 + 1)))


@pytest.mark.parametrize(
    ("coming", "budget", "calls"),
    [
        ([2, 2, 2], None, 3),
        ([2, 2, 2], 4, 2),
        ([2, 2, None], None, 2),
        ([None, 2, 2], None, 1),
        ([2, 9, 2], None, 1),
    ],
)
def test_calls_go_together_while_they_are_short(
    coming: list[int | None], budget: int | None, calls: int
) -> None:
    rows = [None if tokens is None else rows_of(tokens) for tokens in coming]
    prompts = kept_with(torch.ones(1), [*rows], tokens=12)
    assert len(prompts.calls_together(PROMPT, rows_of(2), budget)) == calls


def test_rows_of_several_widths_are_joined() -> None:
    whole = joined([rows_of(2, width=18), rows_of(1, 3)])
    assert whole.ids.shape == (3, 24)
    assert whole.mask.sum(1).tolist() == [15, 14, 16]
    assert torch.equal(whole.ids[0][whole.mask[0]], torch.arange(1, 16))
    assert whole.forwarded.tolist() == [14, 13, 15]
    assert whole.after(12).forwarded.tolist() == [2, 1, 3]


def test_short_prompts_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MIN_KEPT_TOKENS", 2)
    prompts = KeptPrompts()
    prompts.expect([{b"abcd": None, b"abcdefgh": None}] * 2)
    assert not prompts.expects(b"abcd", rows_of(1))
    assert prompts.expects(b"abcdefgh", rows_of(1))


def test_micro_batches_of_a_group_stay_in_order() -> None:
    rows = torch.arange(12)
    batch = {
        "prompt_ids": rows[:, None], "prompt_mask": torch.ones(12, 1),
        "completion_ids": rows[:, None], "completion_mask": torch.ones(12, 1),
    }  # fmt: skip
    made = grouped_micro_batches(batch, 6, lambda n: torch.arange(n - 1, -1, -1), together=2)
    assert [one["prompt_ids"].flatten().tolist() for one in made] == [
        [8, 9], [10, 11], [4, 5], [6, 7], [0, 1], [2, 3],
    ]  # fmt: skip


def test_only_prompts_of_several_micro_batches_are_cut() -> None:
    a, b = rows_of(1), rows_of(2)
    micro_batches = [{A: a}, {A: a, B: b}, {B: b}, {C: a}]

    def calls(stretch: slice, *, together: bool = True) -> list[dict[bytes, PaddedRows | None]]:
        return calls_of_cut_prompts(micro_batches, stretch, together=together)

    assert calls(slice(None)) == [{A: a}, {A: a, B: b}, {B: b}, {}]
    assert calls(slice(None), together=False) == [{A: None}, {A: None, B: None}, {B: None}, {}]
    assert calls(slice(0, 2)) == [{A: a}, {A: a, B: None}]
    assert calls(slice(3, 4)) == [{}]


@pytest.mark.parametrize(("completion", "kept_calls"), [(51, 2), (53, 0)])
def test_prompts_are_kept_where_a_tenth_of_the_tokens_is_saved(
    completion: int, kept_calls: int
) -> None:
    rows = rows_of(completion, width=80)  # of 13 tokens twice, once is saved
    calls = calls_of_cut_prompts([{PROMPT: rows}, {PROMPT: rows}], slice(None), together=True)
    assert sum(PROMPT in call for call in calls) == kept_calls
