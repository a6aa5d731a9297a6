"""What the names of checkpoints say of their sizes."""

from __future__ import annotations

import pytest

from memlint.api.knowledge.sizes import billions, words


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8.0),
        ("HuggingFaceTB/SmolLM2-135M", 0.135),
        ("Qwen/Qwen3-30B-A3B", 30.0),
        ("mistralai/Mixtral-8x7B-v0.1", 46.7),
        ("someone/dolphin-mixtral-8x22b", 140.6),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 109.0),
        ("stabilityai/stablelm-2-1_6b", 1.6),
        ("unsloth/llama-3-8b-bnb-4bit", 8.0),
        ("TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", 1.1),
        ("./out/llama2-7b-hf/", 7.0),
        ("openai-community/gpt2", 0.12),
        ("google/flan-t5-xl", 2.85),
        ("microsoft/phi-2", 2.8),
        ("models/Qwen/Qwen2___5-0___5B-Instruct", 0.5),
    ],
)
def test_names_say_sizes(name: str, size: float) -> None:
    assert billions(name) == pytest.approx(size)


@pytest.mark.parametrize(
    "name",
    [
        "./checkpoints/last",
        "me/merge-4x7B",
        "me/llama-moe-3.5b-8x1b",
        "Qwen/Qwen1.5-MoE-A2.7B",
        "me/mix-7b-of-13b",
        "x-4bit",
        "",
    ],
)
def test_other_names_say_none(name: str) -> None:
    assert billions(name) is None


def test_families_say_their_vocabularies() -> None:
    assert words("meta-llama/Llama-3.2-1B") == 128_256
    assert words("Qwen/Qwen2.5-7B-Instruct") == 151_936
    assert words("mistralai/Mistral-7B-v0.1") == 32_000
    assert words("someone/model") is None
