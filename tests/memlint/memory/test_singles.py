"""Single tensors by name: what an allocation of a given size can be."""

from __future__ import annotations

from memlint.memory import single_tensors


def test_sizes_of_single_tensors_are_those_that_torch_asks_for() -> None:
    run = {
        "model": "mistralai/Mistral-7B-v0.1",
        "method": "full",
        "micro_batch": 2,
        "seq_len": 4096,
        "loss": "full_logits",
        "optimizer": "adamw_torch",
        "attention": "eager",
    }
    sizes = {(tensor.name, tensor.bytes) for _, tensor in single_tensors(run)}
    tokens = 2 * 4096
    assert ("lm_head", tokens * 32000 * 2) in sizes
    assert ("logits in float32", tokens * 32000 * 4) in sizes
    assert ("attention softmax", 2 * 32 * 4096 * 4096 * 4) in sizes
    assert ("up_proj", tokens * 14336 * 2) in sizes
    assert ("gradient of down_proj", 4096 * 14336 * 2) in sizes


def test_the_largest_comes_first_and_says_how_it_comes_about() -> None:
    found = single_tensors(
        {
            "model": "Qwen/Qwen2.5-7B",
            "micro_batch": 4,
            "seq_len": 2048,
            "loss": "full_logits",
            "trainer": "loop",
        }
    )
    sizes = [tensor.bytes for _, tensor in found]
    assert sizes == sorted(sizes, reverse=True)
    assert found[0][1].arithmetic == f"{4 * 2048 * 152064} x 4 bytes"
