"""Every step of `tests.gpu`, small, on a stand-in for CUDA: none fails for want of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import trl
from memlint_runtime.losses import planning
from transformers import Qwen2Config, Qwen3Config

from tests.bench import losses as ways
from tests.bench.shared_prompt import labels_of, rows_of
from tests.gpu import (
    bench_attention,
    bench_losses,
    bench_offload,
    bench_shared_prompt,
    bench_streaming,
    correctness_attention,
    correctness_losses,
    correctness_memory,
    correctness_offload,
    correctness_shared_prompt,
    correctness_streaming,
    correctness_verify,
    harness,
)
from tests.gpu.harness import Step
from tests.gpu.offload_models import TINY
from tests.gpu.stand_in import cuda_on_the_cpu

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]

_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 512,
}
# Peers that have kernels for CUDA alone.
_PEERS = {"liger", "cut_cross_entropy", "cut_cross_entropy_exact"}
if not hasattr(torch.nn, "LinearCrossEntropyOptions"):  # before 2.13
    _PEERS.add("torch")


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"TOKENS": 64, "WIDTH": 32, "VOCABULARY": 256, "ROWS": 8}.items():
        monkeypatch.setattr(ways, name, value)
    monkeypatch.setattr(bench_losses, "REPEATS", 1)
    monkeypatch.setattr(bench_losses, "HEADS", {"small": (256, 32)})
    monkeypatch.setattr(bench_shared_prompt, "repeats_for", lambda seconds: 1)
    shapes = {
        "4b": lambda: Qwen3Config(**_SMALL, head_dim=8, tie_word_embeddings=True),
        "7b": lambda: Qwen2Config(**_SMALL),
    }
    monkeypatch.setattr(bench_shared_prompt, "SHAPES", shapes)
    monkeypatch.setattr(
        bench_shared_prompt,
        "rows_of",
        lambda prompts, group, prompt, completion, _: rows_of(
            prompts, group, prompt // 64, completion // 64, 97
        ),
    )
    monkeypatch.setattr(
        bench_shared_prompt, "labels_of", lambda ids, prompt: labels_of(ids, prompt // 64)
    )
    monkeypatch.setattr(correctness_shared_prompt, "SIZES", {"small": (4, 2, 16)})
    monkeypatch.setattr(correctness_attention, "LENGTHS", (30, 1, 13, 51, 8, 12))
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, use_cpu=True))
    configs = {name: correctness_shared_prompt.CONFIGS[name] for name in ("llama", "gemma2")}
    monkeypatch.setattr(correctness_shared_prompt, "CONFIGS", configs)
    # ``predicted`` leaves out the workspaces of cuBLAS, one in each of two threads.
    workspaces = 2 * 8519680
    monkeypatch.setattr(
        correctness_memory, "on_gpu", lambda cell: (cell.predicted() + workspaces, 2**30)
    )
    # In tiles, as logits of real sizes are.
    monkeypatch.setattr(planning, "WHOLE_BYTES", 0)
    with cuda_on_the_cpu():
        yield


def _named(module: Any) -> list[Any]:
    return [pytest.param(step, id=step.name) for step in module.STEPS]


def _complain(result: dict[str, Any], ways_measured: set[str]) -> None:
    """Fail where a way that is no peer's failed: `_measure` records errors as results."""
    for name in ways_measured - _PEERS:
        assert "error" not in result[name], (name, result[name])


@pytest.mark.draws(3)
@pytest.mark.parametrize("step", _named(bench_losses))
def test_benchmarks_of_losses(step: Step) -> None:
    result: dict[str, Any] = step.run()
    measured = {name for name, found in result.items() if isinstance(found, dict)}
    _complain(result, {name for name in measured if not name.startswith("ours_to_")})


@pytest.mark.draws(3)
@pytest.mark.parametrize("step", _named(bench_shared_prompt))
def test_benchmarks_of_shared_prompts(step: Step) -> None:
    result: dict[str, Any] = step.run()
    assert "out_of_memory" not in str(result)
    assert "seconds" in str(result)


def _without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are Triton's have tests of their own, in its interpreter."""
    from tests.runtime.attention import triton_merge_check
    from tests.runtime.losses import triton_check

    monkeypatch.setattr(triton_check, "check_all", lambda device: 1)
    monkeypatch.setattr(triton_check, "check_whole", lambda device: None)
    monkeypatch.setattr(triton_merge_check, "check_merges", lambda device: 1)


@pytest.mark.draws(3)
@pytest.mark.parametrize("step", [*_named(correctness_losses), *_named(correctness_shared_prompt)])
def test_correctness_of_losses_and_shared_prompts(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_kernels(monkeypatch)
    # What rounds otherwise on a CPU is judged by tests of its own.
    monkeypatch.setattr(correctness_shared_prompt, "TOLERATED", float("inf"))
    monkeypatch.setattr(correctness_losses, "SLACK", float("inf"))
    try:
        assert step.run()
    finally:
        torch.set_default_device(None)


def test_the_memory_models_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = correctness_memory.compare_all()
    assert int(str(found["runs"])) >= 60
    assert abs(float(str(found["worst_allocated_error"]))) < 0.01
    monkeypatch.setattr(correctness_memory, "on_gpu", lambda cell: (2**30, 2**30))
    with pytest.raises(harness.MissedError, match="off by more than 8%"):
        correctness_memory.compare_all()


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    "run",
    {
        "kernels": lambda: correctness_attention.kernel_errors("cuda", torch.float32, (4, 2), 100),
        "flex": correctness_attention.flex_errors,
        "models": lambda: correctness_attention.all_models("cuda", ("llama",)),
        "contamination": lambda: correctness_attention.contamination("cuda"),
        "compiled": lambda: correctness_attention.compiled("cuda", families=("llama",)),
        "layer": lambda: bench_attention.attention_layer("cuda", 96),
        "step": lambda: bench_attention.training_step("cuda", 96, **_SMALL),
        "offloaded": lambda: bench_offload.lora_step("ours", TINY, 256, "cuda"),
        "unchecked": lambda: bench_offload.unchecked_step("ours", TINY, 256, "cuda"),
        "in backward": lambda: bench_offload.optimizer_step(True, TINY, 64, "cuda"),
        "streamed": lambda: bench_streaming.lora_steps("streamed", TINY, "cuda", (32, 64)),
        "streamed, bit-equal": lambda: correctness_streaming.bit_equal(TINY, 32, "cuda"),
        "offload, bit-equal": lambda: correctness_offload.bit_equal(TINY, 1024, "cuda"),
        "offloaded optimizer": lambda: correctness_offload.optimizer_on_the_host(TINY, 32, "cuda"),
    }.values(),
)
def test_steps_that_take_a_device(run: Callable[[], Any]) -> None:
    assert run()


def test_scripts_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness_verify, "_verified", lambda *ignored: {"exit": 0})
    (step,) = correctness_verify.STEPS
    assert len(step.run()) > 10


def test_no_module_of_steps_is_left_out() -> None:
    here = {
        value.__name__
        for value in globals().values()
        if getattr(value, "__name__", "").startswith("tests.gpu.")
    }
    assert set(harness.step_modules()) <= here
