"""What the rooflines are to show of the launches that the runtime plans, on every GPU they know."""

from __future__ import annotations

import pytest

from tests.bench import roofline, shared_prompt_roofline
from tests.bench.roofline_gpus import GPUS, MEASURED_GPUS, Gpu

ALL = pytest.mark.parametrize(
    "gpu", [*GPUS, *MEASURED_GPUS], ids=lambda gpu: f"{gpu.name}-{gpu.library:.2f}"
)


@ALL
@pytest.mark.parametrize("tokens", roofline.TOKENS)
@pytest.mark.parametrize("model", roofline.MODELS)
def test_fused_loss_takes_no_longer_than_cut_cross_entropy(
    model: str, tokens: int, gpu: Gpu
) -> None:
    pytest.importorskip("triton")
    shape = (*roofline.MODELS[model], tokens)
    assert roofline.ours(gpu, *shape) <= roofline.cut_cross_entropy(gpu, *shape)


@ALL
@pytest.mark.parametrize("lora", [False, True])
def test_shared_prompt_reaches_most_of_its_tokens_share(lora: bool, gpu: Gpu) -> None:
    group = shared_prompt_roofline
    theirs, ours = (
        sum(group.parts(gpu, way, lora=lora, entry_bytes=group.MERGED).values())
        for way in (group.repeated(), group.shared())
    )
    assert theirs / ours >= 0.9 * group.RHO


def test_calibration_meets_the_runs_that_are_known() -> None:
    """Plain and cut-cross-entropy on an A100: a roofline may be lower, not much higher."""
    (a100,) = (gpu for gpu in MEASURED_GPUS if gpu.name == "A100")
    for way, shape, milliseconds in (
        (roofline.plain, (128_256, 4096, 8192), 111.5),
        (roofline.plain, (128_256, 4096, 32_768), 452.5),
        (roofline.filtered, (256_000, 2304, 8192), 134.8),
    ):
        assert 1e3 * way(a100, *shape) == pytest.approx(milliseconds, rel=0.07)
