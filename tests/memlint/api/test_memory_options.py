"""What releases brought for memory is listed by the names of options."""

from __future__ import annotations

import pytest

from memlint.api.extract.memory_options import candidates

EVERY = 1000


@pytest.fixture(scope="module")
def found() -> dict[str, bool]:
    return {name: is_read for _, _, name, is_read in candidates(EVERY)}


@pytest.mark.parametrize(
    ("owner", "option"),
    [
        ("trl.SFTConfig", "activation_offloading"),
        ("trl.GRPOConfig", "vllm_enable_sleep_mode"),
        ("transformers.TrainingArguments", "parallelism_config"),
        ("accelerate.ParallelismConfig", "cp_size"),
        ("peft.LoraConfig", "use_dora"),
        ("peft.LoraConfig", "trainable_token_indices"),
        ("peft.VBLoRAConfig", ""),
        ("peft.optimizers.create_lorafa_optimizer", ""),
        ("torch.optim.Muon", ""),
        ("keys", "tiled_mlp"),
        ("keys", "activation_offloading"),
    ],
)
def test_a_lever_is_named(owner: str, option: str, found: dict[str, bool]) -> None:
    assert f"{owner} {option}".strip() in found


def test_it_is_told_from_what_the_linter_reads(
    found: dict[str, bool],
) -> None:
    assert found["trl.SFTConfig activation_offloading"]
    assert not all(found.values())
    assert not any(name.endswith((" seed", " run_name")) for name in found)


def test_the_last_releases_bring_less_than_all(
    found: dict[str, bool],
) -> None:
    few = {name for _, _, name, _ in candidates(3)}
    assert few < found.keys()
