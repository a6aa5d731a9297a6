"""What the rooflines are to show of the launches that the runtime plans, on every GPU they know."""

from __future__ import annotations

import pytest
from memlint_runtime.losses.cost import RATES, Rates

from tests.bench import roofline, shared_prompt_roofline
from tests.bench.roofline_gpus import GPUS, MEASURED_GPUS, Gpu

ALL = pytest.mark.parametrize(
    "gpu", [*GPUS, *MEASURED_GPUS], ids=lambda gpu: f"{gpu.name}-{gpu.library:.2f}"
)


every_case = pytest.mark.parametrize("tokens", roofline.TOKENS)
EVERY_GPU = pytest.mark.parametrize("rates", RATES, ids=lambda rates: rates.name)


@EVERY_GPU
@every_case
@pytest.mark.parametrize("model", ["Llama-3 8B", "Qwen3 8B"])
def test_default_takes_no_longer_than_the_best_peer(model: str, tokens: int, rates: Rates) -> None:
    pytest.importorskip("triton")
    shape = rates, *roofline.MODELS[model], tokens
    default = roofline.ours(*shape)
    assert default is not None
    answers = [run(*shape) for run in roofline.PEERS.values()]
    assert default.seconds <= 1.0005 * min(answer.seconds for answer in answers)
    assert default.bytes <= 1.5 * roofline.cut_cross_entropy(*shape).bytes


@EVERY_GPU
@every_case
def test_wide_vocabularies_take_no_longer_than_exact_ways(tokens: int, rates: Rates) -> None:
    """What a filter skips of Gemma's head depends on the data."""
    pytest.importorskip("triton")
    shape = rates, *roofline.MODELS["Gemma-2 2B"], tokens
    default = roofline.ours(*shape)
    assert default is not None
    ways = roofline.plain, roofline.liger, roofline.torch_chunked, roofline.exact
    assert default.seconds <= min(run(*shape).seconds for run in ways)
    assert default.seconds <= 1.25 * roofline.cut_cross_entropy(*shape).seconds
    assert default.bytes <= 1.5 * roofline.cut_cross_entropy(*shape).bytes


@EVERY_GPU
@every_case
@pytest.mark.parametrize("model", roofline.MODELS)
def test_64_mib_beside_the_gradients_are_enough(model: str, tokens: int, rates: Rates) -> None:
    """Without a fifth product, and without tiles so small that moving them takes the time."""
    pytest.importorskip("triton")
    shape = rates, *roofline.MODELS[model], tokens
    least = roofline.ours(*shape, 64 * roofline.MIB)
    assert least is not None
    assert least.seconds <= 1.83 * roofline.cut_cross_entropy(*shape).seconds
    assert least.bytes <= 1.07 * roofline.cut_cross_entropy(*shape).bytes


@ALL
@pytest.mark.parametrize("lora", [False, True])
def test_shared_prompt_reaches_most_of_its_tokens_share(lora: bool, gpu: Gpu) -> None:
    group = shared_prompt_roofline
    theirs, ours = (
        sum(group.parts(gpu, way, lora=lora, entry_bytes=group.MERGED).values())
        for way in (group.repeated(), group.shared())
    )
    assert theirs / ours >= 0.9 * group.RHO


def test_model_meets_the_runs_that_are_known() -> None:
    """Plain, Liger's and cut-cross-entropy's on an A100."""
    for way, shape, milliseconds in (
        ("plain", (128_256, 4096, 4096), 55.97),
        ("plain", (128_256, 4096, 8192), 111.45),
        ("plain", (128_256, 4096, 32_768), 452.47),
        ("Liger", (128_256, 4096, 4096), 121.43),
        ("Liger", (128_256, 4096, 8192), 166.71),
        ("Liger", (128_256, 4096, 16_384), 277.12),
        ("Liger", (128_256, 4096, 32_768), 511.06),
        ("cut-cross-entropy", (256_000, 2304, 8192), 134.8),
    ):
        answer = roofline.PEERS[way](RATES[0], *shape)
        assert 1e3 * answer.seconds == pytest.approx(milliseconds, rel=0.09)
