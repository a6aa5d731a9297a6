"""Settings from JSON: what is taken, what is refused, and with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory import (
    SettingsError,
    estimate,
    parse_assumption,
    read_settings,
    replace,
    with_assumption,
)
from memlint.memory.settings import Lora, Quantization, Settings, check_inner_names
from tests import settings_page


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"model": "a", "micro_batchs": 1}, "do you mean 'micro_batch'"),
        ({"model": "a", "lora": {"rank": 8}}, "unknown setting 'lora.rank'"),
        ({"micro_batch": 1}, 'settings lack "model"'),
        ({"model": "a", "micro_batch": 0}, "at least 1"),
        ({"model": "a", "micro_batch": "two"}, "whole number"),
        ({"model": "a", "sharding": "fsdp3"}, "do you mean"),
        ({"model": "a", "weights_dtype": "int3"}, "bfloat16, float16, float32"),
        ({"model": "a", "packed": "yes"}, "true or false"),
        ({"model": "a", "lora": {"dropout": 2}}, "from 0 to 1"),
        ({"model": "a", "quantization": {"type": "nf5"}}, "do you mean 'nf4'"),
    ],
)
def test_bad_settings_are_one_clear_line(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(data)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_model_names_near_ones() -> None:
    with pytest.raises(SettingsError, match=r"near: .*Qwen"):
        estimate({"model": "Qwen/Qwen3-9B"})


def test_unknown_optimizer_is_refused() -> None:
    with pytest.raises(SettingsError, match="unknown optimizer 'adamx'"):
        estimate({"model": "gpt2", "optimizer": "adamx"})


def test_names_of_dtypes_and_trainers_have_short_forms() -> None:
    settings = read_settings({"model": "a", "weights_dtype": "bf16", "trainer": "SFTTrainer"})
    assert (settings.weights_dtype, settings.trainer) == ("bfloat16", "trl.SFTTrainer")


def test_assumptions_reach_nested_settings() -> None:
    key, value = parse_assumption("lora.r=64")
    settings = with_assumption(read_settings({"model": "a", "method": "lora"}), key, value)
    assert settings.lora is not None
    assert settings.lora.r == 64


def test_replace_checks_what_it_sets() -> None:
    settings = read_settings({"model": "a"})
    assert replace(settings, checkpointing="full").checkpointing == "full"
    with pytest.raises(SettingsError):
        replace(settings, checkpointing="maybe")


def test_every_default_that_matters_is_named() -> None:
    names = {one.name for one in estimate({"model": "gpt2"}).assumptions}
    assert {"micro_batch", "seq_len", "optimizer", "method", "trainer", "loss"} <= names
    flags = [one.flag for one in estimate({"model": "gpt2"}).assumptions]
    assert all(flag.startswith("--assume ") and "=" in flag for flag in flags)


def test_what_is_given_is_not_assumed() -> None:
    settings = {"model": "gpt2", "micro_batch": 2, "seq_len": 256}
    names = {one.name for one in estimate(settings).assumptions}
    assert names.isdisjoint({"micro_batch", "seq_len"})


@pytest.mark.parametrize(
    ("generation", "said"),
    [
        ({"vlm": True}, "do you mean 'generation.vllm'"),
        ({"vllm": "yes"}, "generation.vllm is true or false"),
        ({"vllm": True, "vllm_gpu_memory_utilization": 90}, "a number from 0 to 1, not 90"),
        ({"vllm": True, "vllm_gpu_memory_utilization": "auto"}, "a number from 0 to 1"),
    ],
)
def test_generation_is_checked(generation: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings({"model": "gpt2", "generation": generation})


def test_long_values_are_cut_in_messages() -> None:
    for settings in ({"model": "gpt2", "x" * 10_000: 1}, {"model": "gpt2", "method": "y" * 10_000}):
        with pytest.raises(SettingsError) as error:
            read_settings(settings)
        assert len(str(error.value)) < 1000


def test_the_page_of_settings_is_what_the_record_says() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()
    keys = {*Settings.__annotations__}
    keys |= {f"lora.{name}" for name in Lora.__annotations__}
    keys |= {f"quantization.{name}" for name in Quantization.__annotations__}
    assert set(settings_page.MEANINGS) == keys


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sharding_options": {"reduce_bucket_siz": 1}}, "'sharding_options.reduce_bucket_size'"),
        ({"sharding_options": {"colour": "red"}}, "docs/settings.md"),
        ({"versions": {"torsh": "2.8"}}, "do you mean 'versions.torch'"),
    ],
)
def test_names_that_nothing_reads_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], said: str
) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"model": "gpt2", **more}))
    assert run(["estimate", "--settings", str(file)]) == 2
    error = capsys.readouterr().err
    assert "unknown setting" in error
    assert said in error
    assert error.count("\n") == 1
    ((section, inner),) = more.items()
    ((name, value),) = inner.items()
    with pytest.raises(SettingsError, match="unknown setting"):
        parse_assumption(f"{section}.{name}={value}")


def test_names_that_something_reads_are_taken() -> None:
    options = {"zero_optimization": {"overlap_comm": True}, "fsdp_cpu_ram_efficient_loading": True}
    check_inner_names({"sharding_options": options, "versions": {"trl": "1.0"}})
    check_inner_names({"versions": {"lightning": "2.5", "flash_attn": "2.7"}})
    assert parse_assumption("sharding_options.cp_size=2") == ("sharding_options.cp_size", 2)
