"""Groups that micro-batches cut: the prompt forwarded once a step, all else as TRL has it."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.shared_prompt import Sharing, kept
from memlint_runtime.shared_prompt.kept import KeptPrompt, KeptPrompts, prompts_of, version_of
from memlint_runtime.shared_prompt.runs import PaddedRows, joined
from memlint_runtime.trl import GRPOTrainer, RLOOTrainer, grouping
from memlint_runtime.trl.forward import kept_prompts_of
from memlint_runtime.trl.grouping import calls_of_cut_prompts, grouped_micro_batches
from peft import LoraConfig
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOConfig, RLOOConfig
from trl import GRPOTrainer as TrlGRPOTrainer
from trl import RLOOTrainer as TrlRLOOTrainer

from tests.runtime.shared_prompt.test_hybrids import tiny as tiny_hybrid
from tests.runtime.shared_prompt.test_trainers import made_for, side_by_side, steps_of, trained
from tests.runtime.shared_prompt.training import DropsLosses, saved, saved_model

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]

# Entropy and KL are means of micro-batches' means, which weigh rows by TRL's own order.
SAME = ("loss", "reward", "grad_norm", "completions/mean_length")


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def _short_prompts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MIN_KEPT_TOKENS", 1)


def rows_at_once(rows: int, accumulated: int, **options: Any) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated,
        "max_steps": 2, **options,
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        rows_at_once(1, 8),
        rows_at_once(1, 8, loss_type="bnpo"),
        rows_at_once(1, 8, loss_type="grpo", gradient_checkpointing=False),
        rows_at_once(1, 4, beta=0.04, num_iterations=2),
        rows_at_once(2, 4, gradient_checkpointing_kwargs={"use_reentrant": True}),
        rows_at_once(3, 4),
        rows_at_once(6, 2),
        rows_at_once(1, 8, steps_per_generation=4),
    ],
    ids=str,
)
def test_training_is_trl_s(model_path: str, tmp_path: Path, options: dict[str, Any]) -> None:
    made = [
        trained(trainer, GRPOConfig, model_path, tmp_path, **options)
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made, names=SAME, steps=2)
    for theirs, ours in zip(*(one.model.parameters() for one in made), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        rows_at_once(1, 8),
        rows_at_once(1, 8, gradient_checkpointing=False, num_iterations=2, beta=0.04),
        rows_at_once(3, 4),
        rows_at_once(
            1, 8, steps_per_generation=4, gradient_checkpointing_kwargs={"use_reentrant": True}
        ),
    ],
    ids=str,
)
def test_training_with_calls_that_go_together_is_trl_s(
    model_path: str, tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_TOGETHER", 100)
    sizes, hand_out = [], KeptPrompts.hand_out

    def watch(self: KeptPrompts, prompt: bytes, calls: Any, values: Any) -> Any:
        sizes.append(len(calls))
        return hand_out(self, prompt, calls, values)

    monkeypatch.setattr(KeptPrompts, "hand_out", watch)
    made = [
        trained(trainer, GRPOConfig, model_path, tmp_path, **options)
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made, names=SAME, steps=2)
    for theirs, ours in zip(*(one.model.parameters() for one in made), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert max(sizes) > 1


@pytest.mark.parametrize("sharing", [Sharing(), Sharing(token_budget=8)])
def test_lora_reference_and_budget(model_path: str, tmp_path: Path, sharing: Sharing) -> None:
    class Bounded(GRPOTrainer):
        pass

    Bounded.sharing = sharing
    made = [
        trained(
            trainer, GRPOConfig, model_path, tmp_path,
            peft=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
            **rows_at_once(2, 2, beta=0.04),
        )
        for trainer in (TrlGRPOTrainer, Bounded)
    ]  # fmt: skip
    side_by_side(*made, names=SAME, steps=2)


def test_windows_and_sinks(tmp_path: Path) -> None:
    """Without a router's loss, for which all tokens have to go through in one pass."""
    path = saved_model(tmp_path / "model", "gpt-oss")
    made = [
        trained(trainer, GRPOConfig, path, tmp_path, **rows_at_once(1, 4, router_aux_loss_coef=0.0))
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made, names=SAME, steps=2)


def test_states_are_kept_with_keys_and_values(tmp_path: Path) -> None:
    """A prompt's linear attention is continued by rows of later micro-batches."""
    path = saved(tiny_hybrid("qwen3_5_text"), tmp_path / "model")
    made = [
        trained(trainer, GRPOConfig, path, tmp_path, **rows_at_once(1, 8))
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made, names=SAME, steps=2)
    assert steps_of(made[1])[0]["shared_prompt/rho"] > 1.5


def test_rloo(model_path: str, tmp_path: Path) -> None:
    made = [
        trained(trainer, RLOOConfig, model_path, tmp_path, **rows_at_once(1, 8))
        for trainer in (TrlRLOOTrainer, RLOOTrainer)
    ]
    side_by_side(*made, names=SAME, steps=2)


def test_a_row_at_a_time_forwards_what_the_whole_group_does(
    model_path: str, tmp_path: Path
) -> None:
    rho = []
    for options in (rows_at_once(4, 2), rows_at_once(1, 8)):
        logged = steps_of(trained(GRPOTrainer, GRPOConfig, model_path, tmp_path, **options))
        rho.append(logged[0]["shared_prompt/rho"])
    # Less where completions begin alike, which one row at a time does not see.
    assert 0.9 * rho[0] < rho[1] <= rho[0] + 1e-6


def test_prompts_are_repeated_if_asked(model_path: str, tmp_path: Path) -> None:
    class Repeating(GRPOTrainer):
        sharing = Sharing(keep_prompts=False)

    logged = steps_of(trained(Repeating, GRPOConfig, model_path, tmp_path, **rows_at_once(1, 8)))
    assert all(entry["shared_prompt/rho"] < 1.1 for entry in logged)


@pytest.mark.parametrize("together", [0.5, 100.0])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_ratio_at_step_0_is_exactly_one(
    model_path: str, tmp_path: Path, rows: int, together: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_TOGETHER", together)
    seen = []

    class Watched(GRPOTrainer):
        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            self.last = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            return self.last

        def _compute_loss(self, model: Any, inputs: Any) -> Tensor:
            loss: Tensor = super()._compute_loss(model, inputs)
            if self.state.global_step == 0:
                mask = inputs["completion_mask"].bool()
                seen.append((self.last[0] - inputs["old_per_token_logps"])[mask].detach())
            return loss

    trained(
        Watched, GRPOConfig, model_path, tmp_path,
        **(rows_at_once(rows, 4, num_iterations=2) | {"max_steps": 1}),
    )  # fmt: skip
    assert len(seen) == 4
    assert all(float(difference.abs().max()) == 0.0 for difference in seen)


def test_a_step_that_was_given_up_leaves_nothing(model_path: str, tmp_path: Path) -> None:
    class Failing(GRPOTrainer):
        calls = 0

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            type(self).calls += 1
            if self.calls == 3:
                raise InterruptedError
            return super().compute_loss(*args, **kwargs)

    broken = made_with(Failing, model_path, tmp_path)
    with pytest.raises(InterruptedError):
        broken.train()
    prompts = kept_prompts_of(broken.model)
    assert prompts is not None
    assert not prompts.waiting
    assert prompts.owed == 0
    broken.train()  # the micro-batches that were left, and whole steps after them
    assert not prompts.waiting
    assert all(1.0 < entry["shared_prompt/rho"] < 2.5 for entry in steps_of(broken))


def made_with(trainer: type, path: str, folder: Path) -> Any:
    from tests.runtime.shared_prompt.test_trainers import prompts, reward, settings, tokenizer

    return trainer(
        model=path, reward_funcs=reward, processing_class=tokenizer(), train_dataset=prompts(),
        args=settings(GRPOConfig, folder, **rows_at_once(1, 4)),
    )  # fmt: skip


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


class ScoresTwice:
    """Scores its micro-batches more than once, without gradients and with."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        with torch.no_grad():
            trainer.compute_loss(*args, **kwargs)
        return (trainer.compute_loss(*args, **kwargs) + trainer.compute_loss(*args, **kwargs)) / 2


class SameRows(ScoresTwice):
    """The last two rows of each group are the same, so that calls cannot be told by their rows."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        trainer: Any = super()
        made = trainer._generate_and_score_completions(inputs)
        for name in ("completion_ids", "completion_mask"):
            made[name][3::4] = made[name][2::4]
        return made


class MasksSome:
    """Takes the tail of some micro-batches' rows out of the loss, which the prompt's other
    micro-batches cannot foresee."""

    micro_batches = 0

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        trainer: Any = super()
        self.micro_batches += 1
        if self.micro_batches % 3 == 2:
            mask = inputs["completion_mask"].clone()
            mask[:, 2:] = 0
            inputs = {**inputs, "completion_mask": mask}
        return trainer._compute_loss(model, inputs)


class ScoresInPieces:
    """Scores rows without gradients amid a step, in pieces, as for old log-probabilities."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        loss = trainer.compute_loss(model, inputs, *args, **kwargs)
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        completion = inputs["completion_ids"].shape[1]
        with torch.no_grad():
            trainer._get_per_token_logps_and_entropies(model, ids, mask, completion, batch_size=1)
        return loss


class LooksAtGradients:
    """Asks for the gradients of each micro-batch's loss before its backward pass."""

    def compute_loss(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        loss = trainer.compute_loss(model, *args, **kwargs)
        parameters = [p for p in model.parameters() if p.requires_grad]
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        return loss


class HasALossOfItsOwn:
    """Runs another loss backward before, and one after, the policy's forward pass."""

    def compute_loss(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        own: Any = self
        own.accelerator.backward(sum(p.square().sum() for p in model.parameters()) * 1e-3)
        loss = trainer.compute_loss(model, *args, **kwargs)
        own.accelerator.backward(sum(p.square().sum() for p in model.parameters()) * 1e-3)
        return loss


class CatchesErrors:
    """Goes on where a micro-batch in the middle of a group fails."""

    micro_batches = 0

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        self.micro_batches += 1
        loss = trainer.compute_loss(*args, **kwargs)
        if self.micro_batches % 4 == 2:
            raise InterruptedError
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        own: Any = self
        try:
            return trainer.training_step(*args, **kwargs)
        except InterruptedError:
            own._step += 1
            return torch.zeros(())


class AddsUpLosses:
    """One backward pass for the losses of all micro-batches of a step."""

    def training_step(self, model: Any, inputs: Any, *args: Any) -> Any:
        trainer: Any = self
        losses = vars(trainer).setdefault("losses", [])
        model.train()
        with torch.enable_grad():
            losses.append(trainer.compute_loss(model, trainer._prepare_inputs(inputs)))
        trainer._step += 1
        if trainer.accelerator.sync_gradients:
            trainer.accelerator.backward(sum(losses) / len(losses))
            losses.clear()
        return torch.zeros(())


@pytest.mark.parametrize("together", [0.0, 100.0])
@pytest.mark.parametrize(
    ("mixin", "options"),
    [
        (ScoresTwice, {}),
        (ScoresTwice, {"gradient_accumulation_steps": 2, "steps_per_generation": 4}),
        (SameRows, {}),
        (MasksSome, {}),
        (DropsLosses, {}),
        (ScoresInPieces, {}),
        (LooksAtGradients, {}),
        (HasALossOfItsOwn, {}),
        (CatchesErrors, {}),
        (AddsUpLosses, {}),
    ],
)
def test_trainers_that_do_more_than_trl_s_learn_the_same(
    model_path: str, tmp_path: Path, mixin: type, options: dict[str, int], together: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Beside the same trainer without kept prompts, whose micro-batches are the same."""
    monkeypatch.setattr(kept, "MOST_TOGETHER", together)
    repeating = {"sharing": Sharing(keep_prompts=False)}
    made = [
        trained(
            type("Own", (mixin, GRPOTrainer), attributes), GRPOConfig, model_path, tmp_path,
            **(rows_at_once(1, 8) | options),
        )
        for attributes in (repeating, {})
    ]  # fmt: skip
    for theirs, ours in zip(*(one.model.parameters() for one in made), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    rho = [steps_of(one)[0]["shared_prompt/rho"] for one in made]
    assert rho[1] > 1.05 * rho[0]


class LeavesOutTheLast:
    """Does nothing with each fourth micro-batch, by which the others' gradients would go."""

    micro_batches = 0

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        self.micro_batches += 1
        if self.micro_batches % 4 == 0:
            return torch.zeros(())
        return trainer.training_step(*args, **kwargs)


class StepsInBetween:
    """Changes the weights after each micro-batch."""

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        loss = trainer.training_step(model, *args, **kwargs)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.999)
        return loss


@pytest.mark.parametrize(
    ("mixin", "reason"),
    [
        (LeavesOutTheLast, "never came or had no backward pass"),
        (StepsInBetween, "parameters changed between the micro-batches of one step"),
    ],
)
@pytest.mark.parametrize("together", [0.0, 100.0])
def test_what_kept_prompts_cannot_follow_is_an_error_before_the_optimizer_steps(
    model_path: str, tmp_path: Path, mixin: type, reason: str, together: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(kept, "MOST_TOGETHER", together)
    options = rows_at_once(1, 4) | {"max_steps": 1}
    with pytest.raises(RuntimeError, match=f"{reason}.*Sharing.keep_prompts=False"):
        trained(type("Own", (mixin, GRPOTrainer), {}), GRPOConfig, model_path, tmp_path, **options)


def test_nothing_is_kept_past_a_step(model_path: str, tmp_path: Path) -> None:
    """Where a trainer has a backward pass of its own, too."""
    kept_after: list[tuple[int, int]] = []

    class Own(GRPOTrainer):
        def training_step(self, model: Any, inputs: Any, *args: Any) -> Any:
            model.train()
            loss = self.compute_loss(model, self._prepare_inputs(inputs))
            loss.backward()
            self._step += 1
            return loss.detach()

    class Watch(TrainerCallback):
        def on_step_end(self, *args: Any, model: Any = None, **kwargs: Any) -> None:
            prompts = kept_prompts_of(model)
            assert prompts is not None
            kept_after.append((len(prompts._ended), len(prompts._kept)))

    trainer = made_with(Own, model_path, tmp_path)
    trainer.add_callback(Watch())
    trainer.train()
    assert kept_after == [(0, 0)] * 2


def test_a_step_by_hand_of_one_micro_batch_has_all_its_gradients(
    model_path: str, tmp_path: Path
) -> None:
    """Outside of `train`, each call of `training_step` is a window of its own."""
    trainer = made_with(GRPOTrainer, model_path, tmp_path)
    trainer.current_gradient_accumulation_steps = 4
    batch = next(iter(trainer.get_train_dataloader()))
    for _ in range(2):
        trainer.model.zero_grad()
        trainer.training_step(trainer.model, batch, None)
        found = [p.grad for p in trainer.model.parameters()]
        assert all(grad is not None and bool(grad.any()) for grad in found)


def test_undoing_amid_a_step_is_reported(
    model_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Undoing(TrainerCallback):
        def on_substep_end(self, *args: Any, model: Any = None, **kwargs: Any) -> None:
            undo(model)

    trainer = made_with(GRPOTrainer, model_path, tmp_path)
    trainer.add_callback(Undoing())
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        trainer.train()
    reports = [one for one in caplog.messages if "undone amid an optimizer step" in one]
    assert len(reports) == 1


def test_a_model_s_second_trainer_shares_too(model_path: str, tmp_path: Path) -> None:
    first = made_with(GRPOTrainer, model_path, tmp_path)
    second = trained(GRPOTrainer, GRPOConfig, first.model, tmp_path, **rows_at_once(1, 8))
    assert steps_of(second)[0]["shared_prompt/rho"] > 1.5
    undo(second.model)
    assert kept_prompts_of(second.model) is None


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


@pytest.mark.parametrize(
    ("rows", "steps", "generation", "times"),
    [(1, 8, None, 0), (2, 2, None, 0), (3, 4, None, 0), (1, 2, 4, 2), (2, 1, 4, 2)],
)
def test_what_still_repeats_prompts_is_reported(
    rows: int, steps: int, generation: int | None, times: int, model_path: str, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """An optimizer step that sees part of a group forwards its prompt anew."""
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        made_for(
            model_path, tmp_path, per_device_train_batch_size=rows,
            gradient_accumulation_steps=steps, steps_per_generation=generation,
        )  # fmt: skip
    assert ("cuts groups" in caplog.text) == bool(times)
    if times:
        assert f"up to {times} times instead of once" in caplog.text


def test_that_prompts_are_repeated_where_parameters_came_to_be_sharded_is_reported(
    model_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """DeepSpeed and FSDP2 take the model over when training begins, after the constructor."""
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        trainer = made_for(
            model_path, tmp_path, per_device_train_batch_size=1, gradient_accumulation_steps=8,
            max_steps=1,
        )  # fmt: skip
        assert "cuts groups" not in caplog.text
        monkeypatch.setattr(grouping, "can_go_in_phases", lambda model: False)
        trainer.train()
    reports = [one for one in caplog.messages if "cuts groups" in one]
    assert len(reports) == 1
    assert "up to 4 times" in reports[0]
