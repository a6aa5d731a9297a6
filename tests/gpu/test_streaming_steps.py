"""The GPU steps of streaming, tiny and on the CPU: they run, and notice what they look for."""

from __future__ import annotations

from typing import Any

import pytest
from memlint_runtime.losses import planning
from memlint_runtime.streaming.blocks import Block

from tests.gpu import bench_streaming, correctness_streaming
from tests.gpu.offload_models import TINY

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning")


@pytest.mark.matrix
def test_correctness_steps_pass_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # In tiles, as logits of real sizes are, and as those of a streamed head always are.
    monkeypatch.setattr(planning, "WHOLE_BYTES", 0)
    found = correctness_streaming.bit_equal(TINY, 32, "cpu")
    assert set(found) == {"none", "checkpointed", "fused loss"}
    files = correctness_streaming.bit_equal_from_files(TINY, 32, "cpu")
    assert int(str(files["read_ahead"])) > 0
    correctness_streaming.given_back(TINY, 32, "cpu")


def test_bit_equal_notices_a_wrong_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    use = Block.use

    def wrong(self: Block) -> None:
        use(self)
        if self._flat is not None:
            self._flat[:64] = 0

    monkeypatch.setattr(Block, "use", wrong)
    with pytest.raises(AssertionError, match="differ"):
        correctness_streaming.bit_equal(TINY, 32, "cpu")


@pytest.mark.draws(1)
@pytest.mark.parametrize("way", ["resident", "streamed", "streamed, one buffer"])
def test_benchmark_steps_run_on_the_cpu(way: str) -> None:
    found: Any = bench_streaming.lora_steps(way, TINY, "cpu", (64,))
    assert found["way"] == way
    assert found["64 tokens"]["tokens_per_second"] > 0
