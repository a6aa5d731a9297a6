"""How GPUs share a run: what is chosen, what is moved, what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory.by_gpus import timeline_with
from memlint.memory.checkpoints import architecture_of
from memlint.memory.gpus import find_gpu, known_gpus
from memlint.memory.settings import SettingsError, read_settings
from memlint.parallel.sharding_search import Candidate, Shared, share
from memlint.parallel.strategies import Strategy, zero_section
from memlint.parallel.traffic import Traffic, traffic_of
from memlint.rule.savings import ends

SMALL, MIDDLE, LARGE = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-70B"


def shared(model: str, gpus: int, gpu: str = "h100-80gb", **more: Any) -> Shared:
    values = {"trainer": "trl.SFTTrainer", "micro_batch": 2, "gradient_accumulation": 8,
              "seq_len": 2048, "weights_dtype": "bfloat16", "gpu": gpu}  # fmt: skip
    return share(read_settings({"model": model, **values, **more}), (), gpus)


def chosen(found: Shared) -> Candidate:
    assert found.chosen is not None
    return found.chosen


CASES: tuple[tuple[str, int, str, dict[str, Any]], ...] = (
    (SMALL, 2, "h100-80gb", {}),
    (MIDDLE, 8, "h100-80gb", {}),
    (MIDDLE, 4, "a100-40gb", {}),
    (LARGE, 8, "h100-80gb", {}),
    (LARGE, 8, "a100-80gb", {"method": "lora"}),
    (MIDDLE, 16, "a100-80gb", {"micro_batch": 1, "gradient_accumulation": 3}),
)


@pytest.mark.parametrize(("model", "gpus", "gpu", "more"), CASES)
def test_the_choice_fits_and_no_other_that_fits_moves_less(
    model: str, gpus: int, gpu: str, more: dict[str, Any]
) -> None:
    found = shared(model, gpus, gpu, **more)
    best = chosen(found)
    assert ends(best.peak)[1] <= found.gpu.room
    for other in found.candidates:
        assert other.micro_batch * other.accumulation * gpus == found.rows * other.strategy.contexts
        fits = ends(other.peak)[1] <= found.gpu.room
        assert other.verdict == "fits" if fits else other.verdict != "fits"
        if fits and bool(other.strategy.host) == bool(best.strategy.host):
            assert round(best.seconds, 3) <= round(other.seconds, 3)
        if fits and best.strategy.host:
            assert other.strategy.host


def test_a_small_model_stays_whole_and_a_large_one_waits_on_the_host() -> None:
    assert chosen(shared(SMALL, 2)).strategy == Strategy("ddp")
    assert chosen(shared(SMALL, 2)).micro_batch == 2  # the run's own
    assert not chosen(shared(MIDDLE, 8)).strategy.host
    best = chosen(shared(LARGE, 8))
    assert best.strategy.host
    assert best.traffic.held > 12 * 70e9  # what the host must have


def test_what_leaves_learning_alone_comes_before_the_host() -> None:
    found = shared(MIDDLE, 4, "a100-40gb", checkpointing="none", seq_len=8192)
    assert ("checkpointing", "full") in {each for one in found.fixes for each in one.changes}
    assert all(not one.tier for one in found.fixes)
    assert not chosen(found).strategy.host
    # Where the run fits as it is nothing is changed.
    assert shared(SMALL, 4, checkpointing="none", seq_len=1024).fixes == ()


def test_where_nothing_fits_the_candidates_are_shown_all_the_same() -> None:
    found = shared(LARGE, 2, "t4-16gb", seq_len=16384)
    assert found.chosen is None
    assert not found.fits
    assert {one.verdict for one in found.candidates} == {"does not fit"}
    assert found.to_json()["chosen"] is None


def names(found: Shared) -> set[str]:
    return {one.strategy.sharding for one in found.candidates}


@pytest.mark.parametrize(
    ("more", "has", "lacks", "said"),
    [
        ({"trainer": "loop"}, {"fsdp2"}, {"zero1", "zero3"}, "no ZeRO"),
        ({"optimizer": "adafactor"}, {"ddp"}, {"zero2", "fsdp2"}, "whole matrices"),
        ({"optimizer": "paged_adamw_8bit"}, {"zero2"}, {"fsdp2"}, "plain tensors"),
        ({"offload": "optimizer"}, {"ddp"}, {"zero2", "fsdp2"}, "on the host itself"),
        ({"method": "qlora"}, {"zero2"}, {"zero3", "fsdp2"}, "quant_storage"),
        ({"autocast": False}, {"fsdp2"}, {"zero1"}, "mixed precision"),
        ({"versions": {"accelerate": "1.2.0"}}, {"fsdp", "zero3"}, {"fsdp2"}, ""),
    ],
)
def test_strategies_that_a_run_cannot_take_are_left_out(
    more: dict[str, Any], has: set[str], lacks: set[str], said: str
) -> None:
    found = shared(SMALL, 4, **more)
    assert has <= names(found)
    assert not lacks & names(found)
    assert said in " ".join(found.left_out)


def test_rows_are_divided_where_they_are_long_and_nothing_masks_them() -> None:
    def contexts(**more: Any) -> set[int]:
        return {one.strategy.contexts for one in shared(SMALL, 8, **more).candidates}

    long: dict[str, Any] = {"seq_len": 32768, "attention": "sdpa"}
    assert contexts(**long) == {1, 2, 4, 8}
    assert contexts(seq_len=4096, attention="sdpa") == {1}
    assert contexts(**long, packed=True) == {1}
    assert contexts(**{**long, "attention": "flash_attention_2"}) == {1}
    assert contexts(**long, versions={"accelerate": "1.8.0"}) == {1}


def test_a_batch_that_is_launched_today_is_kept() -> None:
    assert shared(SMALL, 4).rows == 2 * 8 * 4
    assert shared(SMALL, 4, world_size=8).rows == 2 * 8 * 8


def test_a_run_that_deepspeed_shards_today_is_searched_as_its_trainer_has_it() -> None:
    today: dict[str, Any] = {"sharding": "zero2", "weights_dtype": "bfloat16", "autocast": False}
    assert names(shared(SMALL, 4, **today)) == names(shared(SMALL, 4))


def traffic(strategy: Strategy, steps: int, gpus: int = 4, **more: Any) -> Traffic:
    settings = read_settings(
        {"model": SMALL, "micro_batch": 1, "seq_len": 1024, "weights_dtype": "bfloat16",
         "trainer": "transformers.Trainer", "attention": "sdpa", **more}
    )  # fmt: skip
    architecture = architecture_of(settings)
    decided = strategy.changes(settings, gpus, architecture.hidden)
    run = timeline_with(settings, architecture, **decided, gradient_accumulation=steps)
    return traffic_of(run, strategy)


def test_bytes_that_a_step_moves() -> None:
    weights = 2 * architecture_of(read_settings({"model": SMALL})).parameters
    part = 3 / 4  # of four GPUs
    expected = {
        ("ddp", 4): 2, ("zero1", 4): 2, ("zero2", 4): 4 + 1, ("zero3", 4): 2 * 4 + 4,
        ("fsdp2", 4): 2 * 4 + 1, ("fsdp2", 1): 2 + 1,
    }  # fmt: skip
    for (sharding, steps), times in expected.items():
        found = traffic(Strategy(sharding), steps)
        assert found.between == pytest.approx(times * part * weights, rel=1e-6)
        assert found.to_host == found.held == 0
    early = traffic(Strategy("fsdp2"), 4, versions={"accelerate": "1.10.0"})
    assert early.between == pytest.approx(3 * 4 * part * weights, rel=1e-6)
    offloaded = traffic(Strategy("fsdp2", "parameters"), 4)
    assert offloaded.to_host == pytest.approx(2 * 4 * weights / 4, rel=1e-6)
    assert offloaded.held == pytest.approx(16 * weights / 2, rel=1e-6)
    divided = traffic(Strategy("fsdp2", contexts=2), 1, seq_len=8192)
    keys = 24 * 2 * 2 * 64 * (8192 // 2) * 2  # layers, keys and values, heads, width, tokens, bytes
    assert divided.between - traffic(Strategy("fsdp2"), 1).between == 3 * keys


def test_seconds_follow_the_links() -> None:
    gpu = find_gpu("h100")
    assert Traffic(45 * 10**9).seconds(gpu, 8) == pytest.approx(0.1)
    assert Traffic(45 * 10**9).seconds(gpu, 16) == pytest.approx(0.9)
    assert Traffic(0, 64 * 10**9, 10**9).seconds(gpu, 8) == pytest.approx(1.28)
    assert all(each.link > 0 and each.host > 0 for each in known_gpus().values())


def test_deepspeed_is_told_what_the_model_counts() -> None:
    section = zero_section(Strategy("zero3", "parameters"), 1024)
    assert section["offload_param"]["device"] == section["offload_optimizer"]["device"] == "cpu"
    assert section["reduce_bucket_size"] == 1024 * 1024
    assert "offload_param" not in zero_section(Strategy("zero2", "states"), 1024)


def test_unknown_gpus_are_an_error() -> None:
    with pytest.raises(SettingsError, match="unknown GPU"):
        shared(SMALL, 2, "nonsense-3gb")
