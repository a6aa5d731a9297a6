"""What it costs to keep the last step's outputs while the next forward runs, by fakes.

Run: python -m tests.bench.outputs_outlive_step

A hand-written loop rebinds `outputs` only when the next forward has returned, so what the old one
holds is alive until then. Counted: the peak of the second step, with everything of the first step
let go, with only the loss alive, with `outputs` alive, and with `logits` alive.
"""

from __future__ import annotations

from typing import Any

import torch
from memlint_runtime.checkpoint import checkpoint_activations
from memlint_runtime.fake_memory import MemoryTracker, track_memory
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig

from tests.bench.fake_models import bf16_llama

ROWS, TOKENS, VOCABULARY = 2, 2048, 128256
HOLDS = ("nothing", "loss", "outputs", "logits", "outputs with hidden states")


def second_step_peaks(held: str, *, checkpointed: bool) -> dict[str, int]:
    """Peak bytes of the second step's phases while `held` of the first one is alive."""
    config = LlamaConfig(  # a 1B model's shape: the vocabulary is what counts
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=VOCABULARY,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with FakeTensorMode():
        model = bf16_llama(config)
        if checkpointed:
            checkpoint_activations(model)
        ids = torch.zeros(ROWS, TOKENS, dtype=torch.long)
        with track_memory(model) as tracker:
            kept = _step(model, ids, held, tracker, "first")
            _step(model, ids, held, tracker, "second")
            del kept
    return {
        name.removeprefix("second "): snapshot.total
        for name, snapshot in tracker.phases.items()
        if name.startswith("second")
    }


def _step(model: Any, ids: Any, held: str, tracker: MemoryTracker, name: str) -> Any:
    with tracker.phase(f"{name} forward"):
        outputs = model(ids, labels=ids, output_hidden_states=held.endswith("hidden states"))
    with tracker.phase(f"{name} backward"):
        outputs.loss.backward()
    model.zero_grad()
    if held == "nothing":
        return None
    if held in ("loss", "logits"):
        return getattr(outputs, held)
    return outputs


def main() -> None:
    logits = ROWS * TOKENS * VOCABULARY * 2
    print(f"second step's peak, GiB; {ROWS} x {TOKENS} tokens, vocabulary {VOCABULARY}, bf16")
    print(f"the logits alone: {logits / 2**30:.2f}")
    for checkpointed in (False, True):
        print(f"\n{'checkpointed' if checkpointed else 'not checkpointed':28}forward  backward")
        for held in HOLDS:
            peaks = second_step_peaks(held, checkpointed=checkpointed)
            cells = "".join(f"{peaks[name] / 2**30:10.2f}" for name in ("forward", "backward"))
            print(f"{held:25}{cells}", flush=True)


if __name__ == "__main__":
    main()
