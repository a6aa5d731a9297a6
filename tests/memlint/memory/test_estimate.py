"""Estimates: bytes by hand, order between settings, and runs that were measured."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory import Estimate, estimate
from tests.examples import examples

GIB = 2**30
LORA = {"r": 16, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"], "dropout": 0.1}
FMS: dict[str, Any] = {
    "trainer": "trl.SFTTrainer",
    "seq_len": 4096,
    "packed": True,
    "checkpointing": "full",
    "attention": "flash_attention_2",
    "optimizer": "adamw_torch",
    "weights_dtype": "bfloat16",
    "compute_dtype": "bfloat16",
    "autocast": False,
    "loss": "full_logits",
    "gpu": "a100-80gb",
    "versions": {
        "transformers": "4.48.1",
        "trl": "0.13.0",
        "torch": "2.4.1",
        "peft": "0.13.2",
        "bitsandbytes": "0.43.3",
    },
}
MISTRAL = "mistralai/Mistral-7B-v0.1"
NF4 = {"bits": 4, "type": "nf4", "kbit_preparation": False}
OLD = {**FMS["versions"], "transformers": "4.45.2", "trl": "0.11.4"}


def phase(result: Estimate, name: str) -> int:
    return next(one.total for one in result.phases if one.name == name)


# foundation-model-stack/fms-acceleration, scripts/benchmarks/refs/a100_80gb*.csv: peaks of
# torch.cuda.max_memory_allocated on A100-80GB.
MEASURED: list[tuple[str, dict[str, Any], float]] = [
    ("full", {"method": "full", "micro_batch": 4}, 67.46),
    ("lora, 14 bytes a logit", {"method": "lora", "lora": LORA, "micro_batch": 8}, 36.082),
    (
        "lora, kernel on logits",
        {"method": "lora", "lora": LORA, "micro_batch": 8, "loss": "fused"},
        31.926,
    ),
    (
        "nf4, float32 layer inputs",
        {
            "method": "qlora",
            "lora": LORA,
            "micro_batch": 8,
            "autocast": True,
            "quantization": {**NF4, "kbit_preparation": True},
        },
        34.461,
    ),
    (
        "nf4",
        {
            "method": "qlora",
            "lora": LORA,
            "micro_batch": 8,
            "autocast": True,
            "loss": "fused",
            "quantization": NF4,
        },
        22.28,
    ),
    (
        "full, fsdp over 2",
        {
            "method": "full",
            "micro_batch": 8,
            "world_size": 2,
            "sharding": "fsdp",
            "autocast": True,
            "loss": "fused",
            "versions": OLD,
        },
        67.461,
    ),
    (
        "lora, fsdp over 4, held input gradients",
        {
            "method": "lora",
            "lora": LORA,
            "micro_batch": 16,
            "world_size": 4,
            "sharding": "fsdp",
            "autocast": True,
            "loss": "fused",
            "versions": OLD,
        },
        52.353,
    ),
]


@pytest.mark.parametrize(("name", "changes", "measured"), MEASURED, ids=[m[0] for m in MEASURED])
def test_measured_runs_are_met_within_four_percent(
    name: str, changes: dict[str, Any], measured: float
) -> None:
    result = estimate({"model": MISTRAL, **FMS, **changes})
    assert result.allocated.estimate / GIB == pytest.approx(measured, rel=0.04)


# pytorch/ao, torchao/optim/README.md: 8-bit and 4-bit states at equal activations.
@pytest.mark.parametrize(
    ("optimizer", "measured"), [("adamw_8bit", 7.749), ("adamw_torch_4bit", 7.19)]
)
def test_a_vision_transformer_is_met(optimizer: str, measured: float) -> None:
    result = estimate({
        "model": "timm/vit_huge_patch14_224.orig_in21k", "method": "full", "micro_batch": 8,
        "seq_len": 257, "weights_dtype": "float32", "compute_dtype": "bfloat16",
        "optimizer": optimizer, "trainer": "loop", "compile": True, "packed": True,
        "versions": {"torch": "2.4"},
    })  # fmt: skip
    assert result.allocated.estimate / GIB == pytest.approx(measured, rel=0.04)


def test_full_fine_tuning_in_bfloat16_takes_ten_bytes_a_parameter_at_the_step() -> None:
    result = estimate({"model": MISTRAL, **FMS, "method": "full", "micro_batch": 1})
    assert phase(result, "optimizer step") == pytest.approx(10 * result.parameters, rel=0.001)


def test_fused_adamw_has_no_temporary() -> None:
    result = estimate({
        "model": MISTRAL, **FMS, "method": "full", "micro_batch": 1,
        "optimizer": "adamw_torch_fused",
    })  # fmt: skip
    assert phase(result, "optimizer step") == pytest.approx(8 * result.parameters, rel=0.001)


@pytest.mark.parametrize(
    ("versions", "trainer", "width"),
    [
        ({"transformers": "4.45.2"}, "transformers.Trainer", 12),
        ({"transformers": "4.48.1"}, "transformers.Trainer", 14),
        ({"transformers": "4.57.6"}, "transformers.Trainer", 12),
        ({"transformers": "4.57.6"}, "loop", 14),
    ],
)
def test_bytes_of_a_logit_by_version(versions: dict[str, str], trainer: str, width: int) -> None:
    common = {
        **FMS,
        "versions": versions,
        "trainer": trainer,
        "method": "lora",
        "lora": LORA,
        "seq_len": 1024,
    }
    few = estimate({"model": MISTRAL, **common, "micro_batch": 2})
    many = estimate({"model": MISTRAL, **common, "micro_batch": 4})
    logits = [
        sum(
            t.bytes
            for p in result.phases
            if p.name == "loss"
            for t in p.tensors
            if t.kind == "logits" or "logits" in t.name or "log-softmax" in t.name
        )
        for result in (few, many)
    ]
    assert (logits[1] - logits[0]) / (2 * 1024 * 32000) == pytest.approx(width, abs=0.1)


def test_liger_and_trls_tiles_hold_no_logits() -> None:
    common = {**FMS, "method": "lora", "lora": LORA, "micro_batch": 8, "versions": {}}
    full = estimate({"model": "Qwen/Qwen2.5-7B", **common})
    for loss in ("liger", "chunked"):
        lean = estimate({"model": "Qwen/Qwen2.5-7B", **common, "loss": loss})
        assert phase(lean, "loss") < 0.6 * phase(full, "loss")


def test_a_tile_of_trls_loss_is_as_wide_for_fewer_words() -> None:
    """TRL makes it before it looks at the vocabulary."""
    settings = {"micro_batch": 2, "seq_len": 1024, "loss": "chunked", "trainer": "trl.SFTTrainer"}
    config = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
              "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 8000}  # fmt: skip
    loss = next(
        each
        for each in estimate({"model": {"config": config}, **settings, "versions": {}}).phases
        if each.name == "loss"
    )
    assert loss.bytes_by_kind["temporaries"] >= 2 * 1024 * 32768 * 2


def test_json_has_the_keys_that_tools_read() -> None:
    result = estimate({"model": "gpt2", "micro_batch": 1, "seq_len": 128, "gpu": "t4"}).to_json()
    for name in ("allocated", "reserved", "nvidia_smi"):
        one = result[name]
        assert set(one) == {"low", "estimate", "high"}
        assert one["low"] <= one["estimate"] <= one["high"]
    for item in result["phases"]:
        assert item["total"] == sum(item["bytes_by_kind"].values())
    assert result["fits"] is True
    json.dumps(result)


def test_the_peak_is_a_maximum_over_phases() -> None:
    result = estimate({"model": "gpt2", "micro_batch": 4, "seq_len": 512})
    assert result.allocated.estimate == max(one.total for one in result.phases)


SHAPES = st.fixed_dictionaries(
    {
        "micro_batch": st.integers(1, 8),
        "seq_len": st.sampled_from((128, 512, 2048)),
        "checkpointing": st.sampled_from(("none", "full")),
        "method": st.sampled_from(("full", "lora")),
        "attention": st.sampled_from(("eager", "sdpa", "flash_attention_2")),
        "loss": st.sampled_from(("full_logits", "fused", "chunked", "liger")),
        "trainer": st.sampled_from(("loop", "transformers.Trainer", "trl.SFTTrainer")),
        "model": st.sampled_from(("Qwen/Qwen2.5-0.5B", "EleutherAI/pythia-410m")),
    }
)


@examples(40)
@given(SHAPES)
def test_more_tokens_never_need_less(run: dict[str, Any]) -> None:
    run = {"packed": True, **run}
    one = estimate(run).allocated.estimate
    assert estimate({**run, "micro_batch": run["micro_batch"] + 1}).allocated.estimate >= one
    assert estimate({**run, "seq_len": run["seq_len"] * 2}).allocated.estimate >= one


@examples(40)
@given(SHAPES)
def test_what_saves_memory_never_costs_any(run: dict[str, Any]) -> None:
    run = {"packed": True, **run, "checkpointing": "none", "method": "full"}
    base = estimate(run).allocated.estimate
    assert estimate({**run, "checkpointing": "full"}).allocated.estimate <= base * 1.001
    assert estimate({**run, "optimizer": "adamw_8bit"}).allocated.estimate <= base * 1.001
    assert estimate({**run, "method": "lora"}).allocated.estimate <= base


@pytest.mark.parametrize("sharding", ["ddp", "fsdp", "fsdp2", "zero1", "zero2", "zero3"])
def test_sharding_orders_what_a_gpu_holds(sharding: str) -> None:
    run = {
        "model": "Qwen/Qwen2.5-7B",
        "method": "full",
        "micro_batch": 1,
        "seq_len": 1024,
        "checkpointing": "full",
        "packed": True,
        "optimizer": "adamw_torch",
    }
    two = estimate({**run, "sharding": sharding, "world_size": 2}).allocated.estimate
    eight = estimate({**run, "sharding": sharding, "world_size": 8}).allocated.estimate
    if sharding == "ddp":
        assert eight == two
    else:
        assert eight < two


def test_every_optimizer_of_the_list_can_be_estimated() -> None:
    from memlint.memory.optimizers import NAMES

    sizes = {
        name: estimate(
            {
                "model": "Qwen/Qwen2.5-0.5B",
                "method": "full",
                "optimizer": name,
                "micro_batch": 1,
                "seq_len": 128,
                "trainer": "loop",
            }
        ).allocated.estimate
        for name in NAMES
    }
    assert sizes["adamw_8bit"] < sizes["adamw_torch_fused"] < sizes["adamw_torch"]
    assert sizes["lion_8bit"] < sizes["adamw_8bit"]
    assert sizes["lomo"] < sizes["sgd"] < sizes["lion_32bit"]
    assert sizes["paged_adamw_32bit"] < sizes["adamw_8bit"]


def test_generation_counts_the_cache() -> None:
    result = estimate({
        "model": "Qwen/Qwen2.5-0.5B", "trainer": "trl.GRPOTrainer", "micro_batch": 8,
        "prompt_len": 512, "completion_len": 512,
    })  # fmt: skip
    cache = next(
        t
        for p in result.phases
        if p.name == "generation"
        for t in p.tensors
        if t.kind == "kv cache"
    )
    # layers x rows x tokens x (keys and values) x heads x head width x 2 bytes
    assert cache.bytes == 24 * 8 * 1024 * 2 * 2 * 64 * 2


def test_a_shared_prompt_saves_most_of_the_prompts() -> None:
    run = {
        "model": "Qwen/Qwen2.5-7B",
        "trainer": "trl.GRPOTrainer",
        "micro_batch": 16,
        "group_size": 16,
        "prompt_len": 5000,
        "completion_len": 256,
        "checkpointing": "full",
        "method": "lora",
    }
    repeated, shared = estimate(run), estimate({**run, "shared_prompt": True})
    assert shared.allocated.estimate < 0.7 * repeated.allocated.estimate


def test_a_shared_prompt_saves_no_memory_where_micro_batches_have_one_row() -> None:
    run = {
        "model": "Qwen/Qwen2.5-7B",
        "trainer": "trl.GRPOTrainer",
        "micro_batch": 1,
        "group_size": 16,
        "prompt_len": 5000,
        "completion_len": 256,
        "checkpointing": "full",
        "method": "lora",
    }
    repeated, shared = estimate(run), estimate({**run, "shared_prompt": True})
    # What is kept for the other rows: layers x tokens x (keys and values) x heads x width x bytes,
    # and as much for their gradients.
    kept = 28 * 5000 * 2 * 4 * 128 * 2 * 2
    more = shared.allocated.estimate - repeated.allocated.estimate
    assert kept == pytest.approx(more, rel=0.05)


STREAMED = {
    ("meta-llama/Llama-3.1-8B", "qlora", 512): 0.81,
    ("meta-llama/Llama-3.1-8B", "qlora", 4096): 2.38,
    ("meta-llama/Llama-3.1-8B", "lora", 512): 1.36,
    ("meta-llama/Llama-3.1-8B", "lora", 4096): 2.98,
    ("meta-llama/Llama-3.3-70B-Instruct", "qlora", 512): 3.16,
    ("meta-llama/Llama-3.3-70B-Instruct", "qlora", 4096): 6.06,
    ("meta-llama/Llama-3.3-70B-Instruct", "lora", 512): 5.19,
    ("meta-llama/Llama-3.3-70B-Instruct", "lora", 4096): 8.43,
}


@pytest.mark.parametrize(("run", "counted"), STREAMED.items())
def test_a_streamed_base_is_what_the_runtime_leaves(
    run: tuple[str, str, int], counted: float
) -> None:
    """GiB counted by `python -m tests.bench.streaming_memory`, tensor by tensor."""
    model, method, tokens = run
    given: dict[str, Any] = {
        "model": model,
        "method": method,
        "lora": {"r": 8, "target_modules": "all-linear"},
        "micro_batch": 1,
        "seq_len": tokens,
        "checkpointing": "full",
        "loss": "liger",
        "trainer": "loop",
        "offload": "activations",
        "optimizer": "adamw_torch",
        "autocast": False,
        "weights_dtype": "bfloat16",
    }
    if method == "qlora":
        given["quantization"] = {"bits": 4, "type": "nf4", "double_quant": True}
    streamed = estimate({**given, "streamed": True, "head_in_tiles": True}).peak.total
    assert 0.85 * counted < streamed / GIB < 1.1 * counted
    whole_head = estimate({**given, "streamed": True}).peak.total
    resident = estimate(given).peak.total
    assert streamed <= whole_head < resident
