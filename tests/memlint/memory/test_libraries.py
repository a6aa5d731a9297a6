"""What particular releases and libraries keep: each measured on a real GPU, or by hand."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.checkpoints import find_architecture
from memlint.memory.estimates import Estimate
from memlint.memory.optimizers import find_optimizer, state_bytes
from tests.memlint.memory.oom_cases import CASES, rank

GIB = 2**30
SANTACODER: dict[str, Any] = {
    "model": "bigcode/gpt_bigcode-santacoder",
    "micro_batch": 8,
    "seq_len": 2048,
    "packed": True,
    "trainer": "trl.SFTTrainer",
    "checkpointing": "full",
    "attention": "flash_attention_2",
    "loss": "full_logits",
    "optimizer": "adamw_torch",
    "weights_dtype": "bfloat16",
    "compute_dtype": "bfloat16",
    "gpu": "a100-80gb",
    "versions": {"torch": "2.4.1", "transformers": "4.48.1", "bitsandbytes": "0.43.3"},
}
LITGPT: dict[str, Any] = {
    "trainer": "loop",
    "seq_len": 512,
    "attention": "sdpa",
    "loss": "chunked",
    "optimizer": "adamw_torch",
    "weights_dtype": "bfloat16",
    "method": "lora",
    "lora": {"r": 32, "dropout": 0.05, "target_modules": ["query", "value"], "dtype": "bfloat16"},
    "versions": {"litgpt": "0.4", "bitsandbytes": "0.42.0"},
    "gpu": "a10g-24gb",
    "gradient_accumulation": 4,
}


def gib(result: Estimate) -> float:
    return result.allocated.estimate / GIB


def kinds(result: Estimate, word: str) -> int:
    return sum(t.bytes for phase in result.phases for t in phase.tensors if word in t.name)


def test_gpt_bigcode_keeps_its_cache_while_it_checkpoints() -> None:
    nf4 = {"bits": 4, "type": "nf4", "kbit_preparation": False}
    run = {**SANTACODER, "method": "qlora", "quantization": nf4, "autocast": True}
    run["lora"] = {"r": 16, "target_modules": ["c_attn", "o_proj"], "dropout": 0.1}
    assert gib(estimate(run)) == pytest.approx(16.286, rel=0.01)
    whole = {**SANTACODER, "method": "full", "autocast": False, "loss": "fused"}
    assert gib(estimate(whole)) == pytest.approx(12.65, rel=0.01)
    newer = {**whole, "versions": {"transformers": "4.57.1"}}
    assert kinds(estimate(newer), "whole projections") == 0


@pytest.mark.parametrize(
    ("model", "rows", "measured"),
    [
        ("mistralai/Mistral-7B-v0.1", 2, 19.241),
        ("meta-llama/Llama-2-7b-hf", 2, 18.412),
        ("meta-llama/Llama-3.1-8B", 1, 18.375),
        ("meta-llama/Llama-3.2-1B", 1, 4.182),
    ],
)
def test_litgpt_repeats_keys_and_widens_logits(model: str, rows: int, measured: float) -> None:
    result = estimate({**LITGPT, "model": model, "micro_batch": rows})
    assert gib(result) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(
    ("model", "rows", "measured"),
    [("mistralai/Mistral-7B-v0.1", 2, 13.309), ("meta-llama/Llama-3.2-1B", 2, 5.15)],
)
def test_old_quantized_matmuls_keep_inputs_and_copies(
    model: str, rows: int, measured: float
) -> None:
    nf4 = {"bits": 4, "type": "nf4", "kbit_preparation": False}
    run = {**LITGPT, "model": model, "micro_batch": rows, "method": "qlora", "quantization": nf4}
    assert gib(estimate(run)) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(("version", "keeps"), [("0.43.1", True), ("0.43.2", False)])
def test_four_bit_matmuls_kept_their_input_until_0_43_2(version: str, keeps: bool) -> None:
    run = {
        "model": "meta-llama/Llama-3.2-1B",
        "method": "qlora",
        "micro_batch": 2,
        "seq_len": 2048,
        "checkpointing": "none",
        "versions": {"bitsandbytes": version},
    }
    kept = gib(estimate(run)) - gib(estimate({**run, "versions": {"bitsandbytes": "0.46"}}))
    assert (kept > 0.5) is keeps


def test_eight_bit_matmuls_keep_their_input() -> None:
    run = {"model": "meta-llama/Llama-3.2-1B", "method": "lora", "micro_batch": 2, "seq_len": 2048}
    eight = {**run, "quantization": {"bits": 8, "kbit_preparation": False}}
    four = {**run, "quantization": {"bits": 4, "kbit_preparation": False}}
    weights = 973_078_528 // 2  # numbers of the layers' matrices, half a byte each
    assert estimate(eight).allocated.estimate - estimate(four).allocated.estimate > 1.5 * weights


def test_gradients_stood_between_steps_before_torch_2() -> None:
    run = {
        "model": "google-bert/bert-base-uncased",
        "method": "full",
        "weights_dtype": "float32",
        "compute_dtype": "float32",
        "micro_batch": 8,
        "seq_len": 512,
    }
    old, new = (estimate({**run, "versions": {"torch": v}}) for v in ("1.13.1", "2.0.0"))
    gradients = 4 * old.trainable
    assert old.allocated.estimate - new.allocated.estimate > 0.8 * gradients


def test_galore_keeps_plain_states_for_tables() -> None:
    optimizer = find_optimizer("galore_adamw")
    assert optimizer is not None
    layer = state_bytes(optimizer, 4096 * 4096, 2, rows=4096, columns=4096)
    table = state_bytes(optimizer, 32000 * 4096, 2, rows=32000, columns=4096, embedding=True)
    assert layer < 2 * 2 * 4096 * 4096 / 8
    assert table == 2 * 2 * 32000 * 4096


def test_a_list_of_skipped_modules_replaces_the_default() -> None:
    run = {"model": "meta-llama/Llama-3.1-8B", "method": "qlora", "micro_batch": 1, "seq_len": 256}
    base = {"bits": 4, "kbit_preparation": False}
    plain = estimate({**run, "quantization": base}).phases[0].total
    kept = estimate({**run, "quantization": {**base, "skip_modules": ["lm_head"]}})
    other = estimate({**run, "quantization": {**base, "skip_modules": ["router"]}})
    assert kept.phases[0].total == plain
    # 128,256 x 4,096: from two bytes to half a byte and four for each 64.
    assert plain - other.phases[0].total == 128256 * 4096 * 2 - 128256 * 4096 * 9 // 16


def test_names_that_differ_by_a_dot_are_two_models() -> None:
    assert find_architecture("facebook/opt-13b").hidden == 5120
    assert find_architecture("facebook/opt-1.3b").hidden == 2048
    assert find_architecture("opt_13b").hidden == 5120


def test_sizes_without_frames_are_explained() -> None:
    known = [case for case in CASES if case["settings"] is not None]
    for cases in (known, CASES):
        places = [rank(case, frames=False) for case in cases]
        assert sum(place <= 3 for place in places) >= 0.8 * len(cases)
