"""Architectures: parameter counts that are published, and names as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.memory import SettingsError
from memlint.memory.checkpoints import find_architecture
from memlint.memory.config_values import number
from memlint.memory.gpus import find_gpu, known_gpus
from tools.model_table import table_configs


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616),
        ("meta-llama/Meta-Llama-3-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("Qwen/Qwen2.5-0.5B", 494_032_768),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("google/gemma-2-2b", 2_614_341_888),
        ("microsoft/phi-2", 2_779_683_840),
        ("openai-community/gpt2", 124_439_808),
        ("tiiuae/falcon-7b", 6_921_720_704),
        ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
    ],
)
def test_parameter_counts_are_those_published(name: str, parameters: int) -> None:
    assert find_architecture(name).parameters == pytest.approx(parameters, rel=1e-4)


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("unsloth/llama-3.1-8b-instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.1-8B"),
        ("TheBloke/Mistral-7B-v0.1-GPTQ", "mistralai/Mistral-7B-v0.1"),
        ("QWEN/qwen2.5-7b-INSTRUCT", "Qwen/Qwen2.5-7B"),
        ("Qwen/Qwen-14B-Chat-Int4", "Qwen/Qwen-14B"),
        ("bert-large-uncased", "google-bert/bert-large-uncased"),
    ],
)
def test_names_are_found_without_case_organization_and_suffixes(written: str, row: str) -> None:
    assert find_architecture(written) == find_architecture(row)


def test_the_table_is_large_and_every_row_can_be_read() -> None:
    configs = table_configs()
    assert len(configs) >= 150
    for name, config in configs.items():
        architecture = find_architecture(config)
        assert architecture.parameters > 10**6, name
        assert architecture.unknown == (), name


def test_every_row_names_its_source() -> None:
    import memlint.memory.checkpoints as module

    path = Path(module.__file__).parent / "data" / "models.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["models"]
    assert all(row["source"] for row in rows)


def test_a_config_without_its_sizes_is_refused() -> None:
    with pytest.raises(SettingsError, match="hidden_size"):
        find_architecture({"model_type": "llama", "num_hidden_layers": 2})


def test_an_unlisted_type_is_read_by_the_shared_keys_and_named() -> None:
    config = {
        "model_type": "brand_new",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
    }
    assert find_architecture(config).unknown == ("brand_new",)


def test_a_config_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(table_configs()["Qwen/Qwen3-8B"]))
    assert find_architecture(str(tmp_path)) == find_architecture("Qwen/Qwen3-8B")


def test_gpus_by_short_names() -> None:
    assert len({gpu.name for gpu in known_gpus().values()}) >= 40
    assert find_gpu("RTX 4090") == find_gpu("rtx4090-24gb")
    assert find_gpu("NVIDIA A100-SXM4-80GB").name == "a100-80gb"
    with pytest.raises(SettingsError, match=r"near: .*h100"):
        find_gpu("h100-81gb")


def test_a_size_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="'hidden_size' is a whole number, not 'big'"):
        number({"hidden_size": "big"}, "hidden_size")
