"""Any settings give numbers that make sense, or one clear error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from memlint.memory import SettingsError, estimate
from memlint.memory.optimizers import NAMES
from memlint.memory.settings import CHOICES, QUANTIZATIONS

MODELS = (
    "Qwen/Qwen2.5-0.5B",
    "meta-llama/Llama-3.2-1B",
    "mistralai/Mixtral-8x7B-v0.1",
    "google/gemma-2-2b",
    "openai-community/gpt2",
    "microsoft/phi-2",
    "google-t5/t5-small",
    "google-bert/bert-base-uncased",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
SLACK = 2**26  # bytes; what a change that saves memory may cost besides
DTYPES = st.sampled_from(("bfloat16", "float16", "float32"))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


LORA = st.fixed_dictionaries(
    {},
    optional={
        "r": st.sampled_from((1, 8, 64)),
        "target_modules": st.sampled_from(("all-linear", ["q_proj", "v_proj"], ["absent"])),
        "dropout": st.sampled_from((0, 0.1)),
        "modules_to_save": st.sampled_from(([], ["embed_tokens", "lm_head"])),
        "dtype": DTYPES,
    },
)
QUANTIZATION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(QUANTIZATIONS),
        "double_quant": st.booleans(),
        "kbit_preparation": st.booleans(),
        "skip_modules": st.sampled_from(([], ["lm_head"], ["q_proj"])),
    },
)
SETTINGS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "micro_batch": st.sampled_from((1, 2, 5)),
        "seq_len": st.sampled_from((1, 7, 256, 2048)),
    },
    optional={
        "method": maybe(st.sampled_from(CHOICES["method"])),
        "lora": maybe(LORA),
        "quantization": maybe(QUANTIZATION),
        "weights_dtype": DTYPES,
        "compute_dtype": DTYPES,
        "optimizer": st.sampled_from(NAMES),
        "packed": st.booleans(),
        "gradient_accumulation": st.sampled_from((1, 4)),
        "checkpointing": st.sampled_from(CHOICES["checkpointing"]),
        "attention": st.sampled_from(CHOICES["attention"]),
        "loss": st.sampled_from(CHOICES["loss"]),
        "trainer": st.sampled_from(CHOICES["trainer"]),
        "group_size": st.sampled_from((1, 4)),
        "prompt_len": st.sampled_from((0, 300)),
        "completion_len": st.sampled_from((1, 200)),
        "shared_prompt": st.booleans(),
        "offload": st.sampled_from(CHOICES["offload"]),
        "compile": st.booleans(),
        "world_size": st.sampled_from((1, 2, 7, 16)),
        "sharding": st.sampled_from(CHOICES["sharding"]),
        "sharding_options": st.sampled_from(({}, {"tensor_parallel": 2}, {"device_map": "auto"})),
        "gpu": st.sampled_from(("a100-80gb", "rtx4090-24gb")),
        "versions": st.sampled_from(
            ({}, {"torch": "1.13", "transformers": "4.30"}, {"litgpt": "0.4"}, {"trl": "main"})
        ),
    },
)
QUICK = examples(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))


def allocated(settings: dict[str, Any], **changes: Any) -> int:
    return estimate({**settings, **changes}).allocated.estimate


@QUICK
@given(SETTINGS)
def test_numbers_are_ordered_and_never_negative(settings: dict[str, Any]) -> None:
    result = estimate(settings)
    for interval in (result.allocated, result.reserved, result.nvidia_smi):
        assert 0 <= interval.low <= interval.estimate <= interval.high
    assert result.allocated.estimate <= result.reserved.estimate <= result.nvidia_smi.estimate
    assert all(tensor.bytes >= 0 for phase in result.phases for tensor in phase.tensors)


@QUICK
@given(SETTINGS)
def test_longer_and_larger_batches_need_no_less(settings: dict[str, Any]) -> None:
    whole = allocated(settings)
    assert allocated(settings, seq_len=2 * settings["seq_len"]) >= whole * 0.999
    assert allocated(settings, micro_batch=2 * settings["micro_batch"]) >= whole * 0.999


@QUICK
@given(SETTINGS, st.sampled_from(("activations", "optimizer", "parameters")))
def test_offloading_raises_no_peak(settings: dict[str, Any], offload: str) -> None:
    whole = allocated(settings, offload="none")
    assert allocated(settings, offload=offload) <= whole * 1.02 + SLACK


@QUICK
@given(SETTINGS, st.sampled_from(("full", "selective")))
def test_checkpointing_raises_no_peak(settings: dict[str, Any], mode: str) -> None:
    whole = allocated(settings, checkpointing="none")
    assert allocated(settings, checkpointing=mode) <= whole * 1.05 + SLACK


@QUICK
@given(SETTINGS)
def test_narrower_weights_raise_no_peak(settings: dict[str, Any]) -> None:
    plain = {**settings, "quantization": None, "compute_dtype": "bfloat16"}
    if plain.get("method") == "qlora":
        plain["method"] = "lora"
    whole = allocated(plain, weights_dtype="float32")
    assert allocated(plain, weights_dtype="bfloat16") <= whole * 1.02 + SLACK


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seqlen": 1}, "seq_len"),
        ({"lora": {"rank": 8}}, "lora."),
        ({"quantization": {"bit": 4}}, "quantization.bits"),
        ({"seq_len": float("inf")}, "whole number"),
        ({"seq_len": float("nan")}, "whole number"),
        ({"micro_batch": 0}, "at least 1"),
        ({"micro_batch": 10**30}, "at most"),
        ({"generation": {"vllm_gpu_memory_utilization": "half"}}, "is a number"),
        ({"sharding_options": {"reduce_bucket_size": []}}, "is a number"),
        ({"frozen_models": {"Qwen/Qwen3-8B": "int3"}}, "bfloat16, float16"),
        ({"sharding_options": {"reduce_bucket_size": -5}}, "from 0"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        estimate({"model": "openai-community/gpt2", **change})


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    (None, -1, 0, 3.7, 1e30, float("nan"), True, "x", "12", [], {}, [1, 2], "relu")
)


@QUICK
@given(st.sampled_from((*LLAMA, "layer_types", "text_config", "architectures", "head_dim")), ODD)
def test_odd_configurations_give_numbers_or_an_error(key: str, value: object) -> None:
    try:
        result = estimate({"model": {"config": {**LLAMA, key: value}}})
    except SettingsError:
        return
    assert result.allocated.estimate > 0


@pytest.mark.parametrize("kind", ["mamba", "mamba2", "rwkv", "jamba"])
def test_state_spaces_are_refused(kind: str) -> None:
    config = {**LLAMA, "model_type": kind, "mamba_d_state": 16}
    with pytest.raises(SettingsError, match="state-space"):
        estimate({"model": {"config": config}})


def test_an_unknown_family_is_an_assumption() -> None:
    result = estimate({"model": {"config": {**LLAMA, "model_type": "brand_new"}}})
    assert any(item.value == "brand_new" for item in result.assumptions)
