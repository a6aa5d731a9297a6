"""Our trainers beside TRL's, same seed: the same losses, rewards and metrics, step by step."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.integrations.modes import require_parameters
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.trl import DPOTrainer, GRPOTrainer, RLOOTrainer
from memlint_runtime.trl.exactness import reasons_training_differs
from memlint_runtime.trl.grouping import grouped_micro_batches
from memlint_runtime.trl.trainer import SharedPrompts
from peft import LoraConfig
from torch import Tensor
from transformers import AutoModelForCausalLM, MambaConfig
from trl import DPOConfig, GRPOConfig, RLOOConfig
from trl import DPOTrainer as TrlDPOTrainer
from trl import GRPOTrainer as TrlGRPOTrainer
from trl import RLOOTrainer as TrlRLOOTrainer

from tests.runtime.shared_prompt.models import tiny
from tests.runtime.shared_prompt.training import (
    preferences,
    prompts,
    reward,
    saved_model,
    tokenizer,
)

# trl 1.16 asks transformers 5.23 for checkpointing by names that transformers deprecates.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]

STEPS = 4


@pytest.fixture(scope="module")
def moe_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_model(tmp_path_factory.mktemp("moe"), "qwen3 moe")


def settings(config: type, folder: Path, **options: Any) -> Any:
    chosen: dict[str, Any] = {
        "output_dir": str(folder), "max_steps": STEPS, "per_device_train_batch_size": 8,
        "logging_steps": 1, "report_to": [], "learning_rate": 1e-3, "save_strategy": "no",
        "use_cpu": True, "bf16": False, "disable_tqdm": True,
    }  # fmt: skip
    if config is not DPOConfig:
        chosen |= {"num_generations": 4, "max_completion_length": 10}
    return config(**(chosen | options))


def trained(
    trainer: type, config: type, model: str, folder: Path, peft: Any = None, **options: Any
) -> Any:
    data = {"train_dataset": preferences() if config is DPOConfig else prompts()}
    if config is not DPOConfig:
        data["reward_funcs"] = reward
    made = trainer(
        model=model, args=settings(config, folder, **options), processing_class=tokenizer(),
        peft_config=peft, **data,
    )  # fmt: skip
    made.train()
    return made


def steps_of(made: Any) -> list[dict[str, float]]:
    return [entry for entry in made.state.log_history if "loss" in entry]


SAME = ("loss", "reward", "entropy", "grad_norm", "kl", "completions/mean_length", "rewards/chosen",
        "aux_loss", "logits/chosen", "mean_token_accuracy")  # fmt: skip


def side_by_side(
    theirs: Any,
    ours: Any,
    tolerance: float = 1e-4,
    names: tuple[str, ...] = SAME,
    steps: int = STEPS,
) -> None:
    both = list(zip(steps_of(theirs), steps_of(ours), strict=True))
    assert len(both) == steps
    for wanted, found in both:
        for name in names:
            if name in wanted:
                assert found[name] == pytest.approx(wanted[name], rel=tolerance, abs=tolerance), (
                    name
                )
        assert found["shared_prompt/rho"] > 1.2
        assert found["shared_prompt/tokens_saved"] > 0


@pytest.mark.draws(4)
@pytest.mark.parametrize(
    "options",
    [
        *({"loss_type": kind} for kind in ("grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo")),
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        {"loss_type": "vespo"},
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        {"num_iterations": 2, "gradient_checkpointing": False},
        {"beta": 0.04, "num_iterations": 2},
        {"top_entropy_quantile": 0.4},
        {"entropy_coef": 0.1},
        {"mask_truncated_completions": True},
        {"temperature": 0.7, "cast_lm_head_to_fp32": True},
        {"off_policy_mask_threshold": 0.5, "num_iterations": 2},
        {"pad_to_multiple_of": 8},
    ],
    ids=str,
)
def test_grpo(model_path: str, tmp_path: Path, options: dict[str, Any]) -> None:
    made = [
        trained(trainer, GRPOConfig, model_path, tmp_path, **options)
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made)


@pytest.mark.draws(1)
@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_grpo_over_several_micro_batches(model_path: str, tmp_path: Path, loss_type: str) -> None:
    """Other rows meet in a micro-batch, the step is the same. (Logged means are over micro-batches,
    so that entropy's depends on which rows those hold.)"""
    made = [
        trained(
            trainer, GRPOConfig, model_path, tmp_path, gradient_accumulation_steps=2,
            loss_type=loss_type,
        )
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]  # fmt: skip
    side_by_side(*made, names=("loss", "reward", "grad_norm", "completions/mean_length"))


def test_grpo_with_lora_and_reference(model_path: str, tmp_path: Path) -> None:
    made = [
        trained(
            trainer, GRPOConfig, model_path, tmp_path, beta=0.04,
            peft=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
        )
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]  # fmt: skip
    side_by_side(*made)


@pytest.mark.draws(1)
@pytest.mark.parametrize("router_loss", [0.0, 0.1])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_grpo_of_gpt_oss(tmp_path: Path, checkpointing: bool, router_loss: float) -> None:
    """Sinks, sliding windows and a router, ten steps; completions outgrow the window."""
    model = saved_model(tmp_path / "model", "gpt-oss")
    made = [
        trained(
            trainer, GRPOConfig, model, tmp_path, max_steps=10, beta=0.04,
            gradient_checkpointing=checkpointing, router_aux_loss_coef=router_loss,
        )
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]  # fmt: skip
    side_by_side(*made, steps=10)
    for theirs, ours in zip(*(one.model.parameters() for one in made), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_grpo_with_router_loss(moe_path: str, tmp_path: Path) -> None:
    made = [
        trained(trainer, GRPOConfig, moe_path, tmp_path, router_aux_loss_coef=0.1)
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]
    side_by_side(*made)
    assert "aux_loss" in steps_of(made[1])[0]


def test_grpo_with_evaluation(model_path: str, tmp_path: Path) -> None:
    logs = []
    for trainer in (TrlGRPOTrainer, GRPOTrainer):
        made = trainer(
            model=model_path, reward_funcs=reward, processing_class=tokenizer(),
            args=settings(
                GRPOConfig, tmp_path, per_device_eval_batch_size=4, num_generations_eval=2
            ),
            train_dataset=prompts(), eval_dataset=prompts(4, seed=3),
        )  # fmt: skip
        logs.append(made.evaluate())
    assert logs[1]["eval_loss"] == pytest.approx(logs[0]["eval_loss"], abs=1e-5)
    assert logs[1]["eval_entropy"] == pytest.approx(logs[0]["eval_entropy"], abs=1e-5)


@pytest.mark.draws(1)
@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_grpo_with_importance_correction_for_another_sampler(
    model_path: str, tmp_path: Path, mode: str
) -> None:
    """What vLLM's path does after generating, with log-probabilities that are not the model's."""

    def with_sampler(trainer: type) -> type:
        class Sampled(trainer):  # type: ignore[misc]
            def _generate(self, prompts: Any) -> Any:
                self.use_vllm = False
                found = list(super()._generate(prompts))
                self.use_vllm = True
                found[4] = [[-4.0 - 0.05 * (i % 7) for i in range(len(ids))] for ids in found[1]]
                return tuple(found)

        return Sampled

    made = [
        trained(
            with_sampler(trainer), GRPOConfig, model_path, tmp_path,
            vllm_importance_sampling_mode=mode,
        )
        for trainer in (TrlGRPOTrainer, GRPOTrainer)
    ]  # fmt: skip
    side_by_side(*made)
    assert "sampling/importance_sampling_ratio/mean" in steps_of(made[1])[0]


def test_ratio_at_step_0_is_exactly_one(model_path: str, tmp_path: Path) -> None:
    """Over micro-batches in shuffled order, padded differently, with checkpointing."""
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
        Watched, GRPOConfig, model_path, tmp_path, num_iterations=2, max_steps=1,
        gradient_accumulation_steps=3,
    )  # fmt: skip
    assert len(seen) == 3
    assert all(float(difference.abs().max()) == 0.0 for difference in seen)


def test_a_budget_changes_nothing(model_path: str, tmp_path: Path) -> None:
    class Bounded(GRPOTrainer):
        sharing = Sharing(token_budget=40)

    made = [
        trained(trainer, GRPOConfig, model_path, tmp_path) for trainer in (TrlGRPOTrainer, Bounded)
    ]
    side_by_side(*made)


@pytest.mark.draws(1)
@pytest.mark.parametrize("options", [{}, {"num_iterations": 2}, {"beta": 0.0}], ids=str)
def test_rloo(model_path: str, tmp_path: Path, options: dict[str, Any]) -> None:
    made = [
        trained(trainer, RLOOConfig, model_path, tmp_path, **options)
        for trainer in (TrlRLOOTrainer, RLOOTrainer)
    ]
    side_by_side(*made)


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"precompute_ref_log_probs": True}, {"loss_type": ["ipo"]}, {"use_weighting": True},
        {"ld_alpha": 0.5}, {"gradient_checkpointing": False, "max_length": 30},
    ],
    ids=str,
)  # fmt: skip
def test_dpo(model_path: str, tmp_path: Path, options: dict[str, Any]) -> None:
    made = []
    for i, trainer in enumerate((TrlDPOTrainer, DPOTrainer)):
        made.append(trained(trainer, DPOConfig, model_path, tmp_path / str(i), **options))
    side_by_side(*made)


def test_dpo_with_lora(model_path: str, tmp_path: Path) -> None:
    made = [
        trained(
            trainer, DPOConfig, model_path, tmp_path,
            peft=LoraConfig(r=4, target_modules=["q_proj", "v_proj"]),
        )
        for trainer in (TrlDPOTrainer, DPOTrainer)
    ]  # fmt: skip
    side_by_side(*made)


def made_for(path: Any, folder: Path, **options: Any) -> GRPOTrainer:
    peft = options.pop("peft_config", None)
    return GRPOTrainer(
        model=path, reward_funcs=reward, processing_class=tokenizer(), peft_config=peft,
        args=settings(GRPOConfig, folder, **options), train_dataset=prompts(),
    )  # fmt: skip


def test_what_sharing_would_change_is_refused(model_path: str, tmp_path: Path) -> None:
    peft = LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.1)
    with pytest.raises(ValueError, match=r"lora_dropout=0\.0"):
        made_for(model_path, tmp_path, peft_config=peft)
    with pytest.raises(ValueError, match="torch_compile=True"):
        made_for(model_path, tmp_path, torch_compile=True)
    mamba = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=64, hidden_size=32))
    with pytest.raises(ValueError, match=r"not attention.*Use trl\.GRPOTrainer") as refused:
        made_for(mamba, tmp_path)
    assert "dropout" not in str(refused.value)


@pytest.mark.parametrize("wrong", [5, {"token_budget": 10}, "x", None, Sharing])
def test_what_is_no_sharing_is_refused_at_construction(
    wrong: Any, model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRPOTrainer, "sharing", wrong)
    with pytest.raises(TypeError, match=r"sharing wants an object .*, got .*Write sharing=Sharing"):
        made_for(model_path, tmp_path)


def test_sequence_parallelism_is_refused() -> None:
    trainer = SimpleNamespace(
        model=tiny("llama"),
        args=SimpleNamespace(torch_compile=False),
        accelerator=SimpleNamespace(parallelism_config=SimpleNamespace(cp_size=2, sp_size=1)),
    )
    with pytest.raises(ValueError, match=r"sequence parallelism \(cp_size=2\)"):
        SharedPrompts._refuse_what_cannot_be_shared(trainer, "GRPOTrainer")
    trainer.accelerator.parallelism_config.cp_size = 1
    SharedPrompts._refuse_what_cannot_be_shared(trainer, "GRPOTrainer")


def test_dropout_that_trl_disables_is_none(model_path: str, tmp_path: Path) -> None:
    peft = LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.1)
    assert made_for(model_path, tmp_path, peft_config=peft, disable_dropout=True) is not None


def test_inputs_beside_the_tokens_repeat_the_prompts(
    model_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As vision inputs would: the forward is TRL's own, and it is said once."""
    made = made_for(model_path, tmp_path, gradient_checkpointing=False)
    ids = torch.randint(3, 60, (2, 6))
    inputs = {"input_ids": ids, "labels": ids.clone(), "fused_lm_head": True}
    wanted = made.model(**inputs).log_probs
    for _ in range(2):
        positions = torch.arange(6).expand(2, -1)
        found = made.model(**inputs, position_ids=positions).log_probs
        torch.testing.assert_close(found, wanted)
    assert caplog.text.count("inputs beside the tokens: position_ids") == 1


def test_a_copy_of_the_model_scores_by_itself(model_path: str, tmp_path: Path) -> None:
    """As callbacks that average weights make one."""
    made = made_for(model_path, tmp_path, gradient_checkpointing=False)
    ids = torch.randint(3, 60, (2, 24))
    ids[:, :16] = ids[0, :16]
    inputs = {"input_ids": ids, "labels": ids.clone(), "fused_lm_head": True}
    other = copy.deepcopy(made.model)
    torch.testing.assert_close(other(**inputs).log_probs, made.model(**inputs).log_probs)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    changed = other(**inputs).log_probs
    assert not torch.allclose(changed, made.model(**inputs).log_probs)
    undo(other)
    torch.testing.assert_close(other(**inputs).log_probs, changed, rtol=1e-4, atol=1e-4)


def test_changed_methods_of_trl_are_noticed() -> None:
    class Newer(SharedPrompts):
        def compute_loss(self, model: Any, batch: Any) -> Any: ...

    Newer.__module__ = "trl.trainer.newer"
    with pytest.raises(RuntimeError, match=r"relies on compute_loss\(self, model, inputs"):
        require_parameters(Newer, SharedPrompts._relied_upon)


@pytest.mark.parametrize(
    ("rows", "accumulated", "times", "advice"),
    [
        (1, 8, 4, "per_device_train_batch_size=4 and gradient_accumulation_steps=2 for the same"),
        (2, 2, 2, "per_device_train_batch_size=4 and gradient_accumulation_steps=1 for the same"),
        (6, 2, 2, "per_device_train_batch_size=4 and gradient_accumulation_steps=3 for the same"),
        (3, 4, 2, "per_device_train_batch_size=4 and gradient_accumulation_steps=3 for the same"),
    ],
)
def test_cut_groups_are_reported(
    rows: int,
    accumulated: int,
    times: int,
    advice: str,
    model_path: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where prompts are not kept from one micro-batch to the next."""
    monkeypatch.setattr(GRPOTrainer, "sharing", Sharing(keep_prompts=False))
    options = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated}
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        made_for(model_path, tmp_path, **options)
    assert f"={rows} cuts groups of num_generations=4 completions" in caplog.text
    assert f"up to {times} times instead of once. Set {advice} optimizer steps;" in caplog.text


def test_cut_groups_of_other_steps_are_reported(
    model_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        made_for(model_path, tmp_path, per_device_train_batch_size=2, steps_per_generation=4)
        assert "Set per_device_train_batch_size to a multiple of 4;" in caplog.text
        caplog.clear()
        made_for(model_path, tmp_path, per_device_train_batch_size=8)
    assert "cuts groups" not in caplog.text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"gradient_accumulation_steps": 4}, None),
        ({"gradient_accumulation_steps": 4, "loss_type": "grpo", "num_iterations": 2}, None),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 4}, "no divisor"),
        ({"gradient_accumulation_steps": 2, "loss_type": "bnpo"}, "normalized by the tokens"),
        ({"gradient_accumulation_steps": 2, "top_entropy_quantile": 0.5}, "its threshold"),
        ({"gradient_accumulation_steps": 2, "entropy_coef": 0.1}, "entropy bonus"),
        ({"loss_type": "bnpo", "top_entropy_quantile": 0.5, "entropy_coef": 0.1}, None),
    ],
)
def test_what_differs_by_micro_batch_is_known(
    tmp_path: Path, options: dict[str, Any], reason: str | None
) -> None:
    given = {"gradient_accumulation_steps": 1, **options}
    args = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=4, bf16=False,
        report_to="none", **given,
    )  # fmt: skip
    found = reasons_training_differs(args)
    assert (not found) if reason is None else (len(found) == 1 and reason in found[0])
    router = reasons_training_differs(args, router_loss=True)
    assert len(router) == len(found) + (given["gradient_accumulation_steps"] > 1)


def test_differing_numbers_are_announced(
    model_path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "memlint_runtime.trl"):
        made_for(model_path, tmp_path, loss_type="bnpo", gradient_accumulation_steps=2)
    assert "normalized by the tokens of each micro-batch" in caplog.text


def test_micro_batches_keep_their_rows_and_lose_their_padding() -> None:
    rows, prompt, completion = 8, 6, 5
    batch = {
        "prompt_ids": torch.arange(rows * prompt).view(rows, prompt),
        "prompt_mask": torch.zeros(rows, prompt, dtype=torch.long),
        "completion_ids": torch.arange(rows * completion).view(rows, completion),
        "completion_mask": torch.zeros(rows, completion, dtype=torch.long),
        "tool_mask": torch.ones(rows, completion, dtype=torch.long),
        "importance_sampling_ratio": torch.rand(rows, 1),
        "advantages": torch.arange(rows),
        "num_items_in_batch": torch.tensor(7),
    }
    for row in range(rows):
        batch["prompt_mask"][row, prompt - 1 - row // 2 :] = 1
        batch["completion_mask"][row, : 1 + row // 2] = 1
    whole = {name: value.clone() for name, value in batch.items()}
    made = grouped_micro_batches(batch, 4, lambda n: torch.tensor([6, 0, 1, 7, 4, 2, 5, 3]))
    assert [m["advantages"].tolist() for m in made] == [[6, 7], [0, 1], [4, 5], [2, 3]]
    for m in made:
        rows_of_it = m["advantages"]
        kept = int(rows_of_it[0]) // 2 + 1
        assert torch.equal(m["completion_ids"], whole["completion_ids"][rows_of_it, :kept])
        assert torch.equal(m["prompt_ids"], whole["prompt_ids"][rows_of_it, prompt - kept :])
        assert m["tool_mask"].shape == (2, kept)
        assert m["importance_sampling_ratio"].shape == (2, 1)
        assert int(m["num_items_in_batch"]) == 7


def test_micro_batches_of_nothing_but_padding_keep_a_column() -> None:
    batch = {
        "prompt_ids": torch.ones(2, 3), "prompt_mask": torch.ones(2, 3),
        "completion_ids": torch.ones(2, 4), "completion_mask": torch.zeros(2, 4),
    }  # fmt: skip
    (made,) = grouped_micro_batches(batch, 1)
    assert made["completion_ids"].shape == (2, 1)
    assert made["prompt_ids"].shape == (2, 3)
