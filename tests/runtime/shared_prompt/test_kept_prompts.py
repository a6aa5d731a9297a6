"""Groups that micro-batches cut: the prompt forwarded once a step, all else as TRL has it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.shared_prompt import Sharing, kept
from memlint_runtime.shared_prompt.kept import KeptPrompts
from memlint_runtime.trl import GRPOTrainer, RLOOTrainer, grouping
from memlint_runtime.trl.forward import kept_prompts_of
from peft import LoraConfig
from torch import Tensor
from trl import GRPOConfig, RLOOConfig
from trl import GRPOTrainer as TrlGRPOTrainer
from trl import RLOOTrainer as TrlRLOOTrainer

from tests.runtime.shared_prompt.test_hybrids import tiny as tiny_hybrid
from tests.runtime.shared_prompt.test_trainers import made_for, side_by_side, steps_of, trained
from tests.runtime.shared_prompt.training import saved, saved_model

pytestmark = [
    pytest.mark.usefixtures("_short_prompts_too"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]

# Entropy and KL are means of micro-batches' means, which weigh rows by TRL's own order.
SAME = ("loss", "reward", "grad_norm", "completions/mean_length")


def rows_at_once(rows: int, accumulated: int, **options: Any) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated,
        "max_steps": 2, **options,
    }  # fmt: skip


@pytest.mark.draws(3)
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


@pytest.mark.draws(2)
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


@pytest.mark.draws(1)
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


@pytest.mark.draws(2)
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


def made_with(trainer: type, path: Any, folder: Path, rows: int = 1, steps: int = 4) -> Any:
    from tests.runtime.shared_prompt.test_trainers import prompts, reward, settings, tokenizer

    return trainer(
        model=path, reward_funcs=reward, processing_class=tokenizer(), train_dataset=prompts(),
        args=settings(GRPOConfig, folder, **rows_at_once(rows, steps)),
    )  # fmt: skip


def test_a_model_s_second_trainer_shares_too(model_path: str, tmp_path: Path) -> None:
    first = made_with(GRPOTrainer, model_path, tmp_path)
    second = trained(GRPOTrainer, GRPOConfig, first.model, tmp_path, **rows_at_once(1, 8))
    assert steps_of(second)[0]["shared_prompt/rho"] > 1.5
    undo(second.model)
    assert kept_prompts_of(second.model) is None


def test_two_trainers_of_a_model_share_each_in_its_own_way(model_path: str, tmp_path: Path) -> None:
    class Bounded(GRPOTrainer):
        sharing = Sharing(token_budget=30)

    first = made_with(Bounded, model_path, tmp_path, rows=4, steps=1)
    second = made_with(GRPOTrainer, first.model, tmp_path, rows=4, steps=1)
    forwarded: list[int] = []

    def see(layer: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
        if layer.training:
            forwarded.append(args[0].shape[1])

    first.model.model.layers[0].mlp.register_forward_pre_hook(see)
    longest: dict[Any, int] = {}
    for trainer in (first, second, first):
        forwarded.clear()
        trainer.train()
        longest[trainer] = max(forwarded)
        assert steps_of(trainer)[-1]["shared_prompt/rho"] > 1.5
    assert longest[first] <= 30 < longest[second]


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
