"""Trainers that do more than TRL's while a prompt is kept: the same as without, or an error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.shared_prompt import Sharing, kept
from memlint_runtime.trl import GRPOTrainer
from memlint_runtime.trl.forward import kept_prompts_of
from transformers import TrainerCallback
from trl import GRPOConfig

from tests.runtime.shared_prompt.test_kept_prompts import made_with, rows_at_once
from tests.runtime.shared_prompt.test_trainers import steps_of, trained
from tests.runtime.shared_prompt.training import DropsLosses

pytestmark = [
    pytest.mark.usefixtures("_short_prompts_too"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]


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


@pytest.mark.draws(4)
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


@pytest.mark.draws(2)
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
