"""The GPU steps' own logic, run on the CPU with the kernels that serve there."""

from __future__ import annotations

import pytest
import torch

from tests.gpu import bench_attention, correctness_attention


def test_kernel_errors_are_judged_by_the_padded_path() -> None:
    # More slack than on CUDA: the CPU kernel adds gradients of keys up in half precision.
    errors = correctness_attention.kernel_errors("cpu", torch.bfloat16, (4, 4), 100, slack=4)
    assert max(errors["ours"]) > 1e-4, "half precision is not exact"  # type: ignore[call-overload]


@pytest.mark.draws(1)
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_model_errors(family: str) -> None:
    assert len(correctness_attention.model_errors("cpu", torch.bfloat16, family)) == 4


def test_contamination_step() -> None:
    assert correctness_attention.contamination("cpu") == {"moved": [3]}


def test_benchmarks_run_every_way() -> None:
    assert set(bench_attention.attention_layer("cpu", 96)) >= {"padded", "dense_mask", "ours"}
    small = {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 99, "intermediate_size": 64}
    small |= {"num_attention_heads": 2}
    assert set(bench_attention.training_step("cpu", 96, **small)) >= {
        "padded",
        "dense_mask",
        "ours",
    }
    assert sum(bench_attention.drawn_lengths(2048)) == 2048
