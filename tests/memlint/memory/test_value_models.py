"""PPO: a model of values that is trained beside the policy, and what judges completions."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.memory import estimate
from memlint.memory.checkpoints import find_config
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

GIB = 2**30
RUN: dict[str, Any] = {
    "trainer": "trl.PPOTrainer",
    "method": "full",
    "weights_dtype": "bfloat16",
    "compute_dtype": "bfloat16",
    "autocast": True,
    "optimizer": "adamw_torch_fused",
    "checkpointing": "none",
    "packed": True,
    "attention": "sdpa",
    "versions": {"transformers": "5.23.0", "torch": "2.13.0", "trl": "1.0.0"},
}
SCRIPT = """
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from trl.experimental.ppo import PPOConfig, PPOTrainer

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
critic = AutoModelForSequenceClassification.from_pretrained(
    "Qwen/Qwen2.5-0.5B", num_labels=1, dtype="bfloat16")
judge = AutoModelForSequenceClassification.from_pretrained(
    "Qwen/Qwen3-1.7B", num_labels=1, dtype="float32")
options = PPOConfig("out", per_device_train_batch_size=2, response_length=192)
PPOTrainer(args=options, model=policy, value_model=critic, reward_model=judge,
           ref_model={reference}, train_dataset=prompts, processing_class=words).train()
"""


@pytest.mark.parametrize(
    ("model", "layers", "rows", "lengths", "more", "measured"),
    [
        # Measured with fake tensors: the micro-step of TRL 1.0, its four models included.
        ("Qwen/Qwen2.5-0.5B", 4, 4, (256, 256), {}, 8.555),
        ("Qwen/Qwen2.5-0.5B", 4, 4, (256, 256), {"weights_dtype": "float32"}, 12.066),
        ("meta-llama/Llama-3.2-1B", 6, 4, (512, 128), {}, 17.049),
        ("meta-llama/Llama-3.2-1B", 6, 4, (512, 512), {"gradient_accumulation": 2}, 26.192),
        ("HuggingFaceTB/SmolLM2-1.7B", 16, 16, (256, 512), {}, 71.838),
    ],
)
def test_a_step_of_policy_and_values_needs_what_was_measured(
    model: str, layers: int, rows: int, lengths: tuple[int, int], more: Any, measured: float
) -> None:
    shape = {**find_config(model), "num_hidden_layers": layers}
    prompt, answer = lengths
    run = {**RUN, "micro_batch": rows, "prompt_len": prompt, "completion_len": answer, **more}
    found = estimate({"model": {"config": shape}, **run})
    peak = max(one.total for one in found.phases if one.name != "generation")
    # The judge has the policy's shape, and no output matrix.
    width = 4 if more.get("weights_dtype") else 2
    judge = estimate({"model": {"config": shape}, **run, "head": "classes", "labels": 1})
    assert (peak + judge.parameters * width) / GIB == pytest.approx(measured, rel=0.03)


def test_a_value_model_of_its_own_size_is_counted() -> None:
    sizes = {
        name: estimate({**RUN, "model": "Qwen/Qwen2.5-1.5B", "micro_batch": 1, "value_model": name})
        for name in ("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-0.5B")
    }
    large, small = (each.allocated.estimate for each in sizes.values())
    # Weights, gradients and two moments of a billion numbers, in 16 bits.
    assert 7 < (large - small) / GIB < 9.5


@pytest.mark.parametrize("target", ["trl==1.0.0", ""])
@pytest.mark.parametrize(("reference", "stands"), [("policy_then", True), ("None", True)])
def test_the_models_of_ppo_are_read(target: str, reference: str, stands: bool) -> None:
    api = Api(parse_target(target) if target else newest())
    text = SCRIPT.format(reference=reference)
    found = settings_of(build_script(Source("a.py", text), api))
    assert found is not None
    assert (found["trainer"], found["value_model"]) == ("trl.PPOTrainer", "Qwen/Qwen2.5-0.5B")
    assert (found["reference_model"], found["checkpointing"]) == (stands, "none")
    assert found["frozen_models"] == {"Qwen/Qwen3-1.7B": "float32"}
    assert (found["micro_batch"], found["completion_len"]) == (2, 192)


def test_a_judge_by_name_is_loaded_as_the_policy_is() -> None:
    text = """
from trl import GRPOConfig, GRPOTrainer

def is_short(completions, **_):
    return [len(one) < 80 for one in completions]

options = GRPOConfig("out", model_init_kwargs={"dtype": "bfloat16"})
GRPOTrainer("Qwen/Qwen2.5-0.5B", [is_short, "Qwen/Qwen3-0.6B"], options, train_dataset=rows).train()
"""
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    assert found["frozen_models"] == {"Qwen/Qwen3-0.6B": "bfloat16"}
