"""The runtime's GPUs are the linter's: the same names, however they are spelled, and bytes."""

from __future__ import annotations

import pytest
from memlint_runtime.streaming.planning import GPUS, plan_streaming
from transformers import LlamaConfig

from memlint.memory.gpus import find_gpu, known_gpus


def test_every_gpu_of_the_linter_is_known() -> None:
    assert set(GPUS) == {gpu.name for gpu in known_gpus().values()}
    for name, gpu in GPUS.items():
        assert gpu.memory_bytes == find_gpu(name).bytes
        assert gpu.teraflops > 1
        assert gpu.bus_bytes > 1e9


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("RTX 4090", "rtx4090-24gb"),
        ("A100", "a100-80gb"),
        ("a100-40gb", "a100-40gb"),
        ("H200", "h200-141gb"),
        ("V100", "v100-16gb"),
        ("L40S", "l40s-48gb"),
    ],
)
def test_spellings_mean_the_same_as_for_the_linter(spelling: str, name: str) -> None:
    assert find_gpu(spelling).name == name
    config = LlamaConfig()
    assert str(plan_streaming(config, spelling)) == str(plan_streaming(config, GPUS[name]))


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gpu is one of t4-16gb, .*, or a Gpu, got 'riva128'"):
        plan_streaming(LlamaConfig(), "riva128")
