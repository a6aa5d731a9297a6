"""The GPU steps of offloading, tiny and on the CPU: they run, and notice what they look for."""

from __future__ import annotations

import pytest
from memlint_runtime import OffloadedOptimizer
from memlint_runtime.offload import ActivationOffload
from torch import Tensor

from tests.gpu import bench_offload, correctness_offload
from tests.gpu.offload_models import TINY

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


@pytest.mark.matrix
def test_correctness_steps_pass_on_the_cpu() -> None:
    sent = correctness_offload.bit_equal(TINY, 1024, "cpu")
    assert sent["everything"] != 0
    assert sent["checkpointed"] == 3 * 3 * 1024 * 64 * 2
    correctness_offload.exceptions(TINY, 1024, "cpu")
    correctness_offload.everything_together(TINY, 64, "cpu")


def test_bit_equal_notices_a_wrong_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = ActivationOffload._fetch

    def wrong(self: ActivationOffload, storage: object) -> None:
        fetch(self, storage)  # type: ignore[arg-type]
        storage.on_device.zero_()  # type: ignore[attr-defined]

    monkeypatch.setattr(ActivationOffload, "_fetch", wrong)
    with pytest.raises(AssertionError, match="gradients differ"):
        correctness_offload.bit_equal(TINY, 1024, "cpu")


def test_the_step_of_optimizers_notices_a_state_that_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert correctness_offload.optimizer_on_the_host(TINY, 32, "cpu")["state_bytes"] > 0
    send = OffloadedOptimizer._send

    def wrong(self: OffloadedOptimizer, key: tuple[int, str], tensor: Tensor) -> Tensor:
        return send(self, key, tensor).zero_()

    monkeypatch.setattr(OffloadedOptimizer, "_send", wrong)
    with pytest.raises(AssertionError, match="offloaded optimizer differs"):
        correctness_offload.optimizer_on_the_host(TINY, 32, "cpu")


def test_benchmark_steps_run_on_the_cpu() -> None:
    assert bench_offload.lora_step("ours", TINY, 256, "cpu")["way"] == "ours"
    assert bench_offload.unchecked_step("ours", TINY, 256, "cpu")["tokens"] == 256
    assert bench_offload.optimizer_step(True, TINY, 64, "cpu")["inside"] is True
    found = bench_offload.longest(TINY, "cpu", seconds=0.5, start_tokens=64)
    assert found["ended"] == "out of time"
