"""Peak memory of a full fine-tune of Llama-3.1-8B's shape, AdamW stepping after or in backward.

Run: python -m tests.bench.optimizer_in_backward [--tokens 4096] [--layers 32]

By fakes: bf16 weights, gradients and states; checkpointed layers; fused loss; second step, when
the optimizer's states are there.
"""

from __future__ import annotations

import argparse

import torch
from memlint_runtime import (
    OptimizerInBackward,
    checkpoint_activations,
    fuse_causal_lm_loss,
    track_memory,
)
from memlint_runtime.fake_memory import MemorySnapshot
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.bench.fake_models import bf16_llama
from tests.bench.long_context import llama_8b


def peak(tokens: int, layers: int, *, inside: bool) -> MemorySnapshot:
    """The largest snapshot of the second step."""
    with FakeTensorMode():
        model = bf16_llama(llama_8b(layers))
        checkpoint_activations(model)
        fuse_causal_lm_loss(model, workspace_bytes=2**28)
        adamw = torch.optim.AdamW(model.parameters(), foreach=False)
        optimizer = OptimizerInBackward(adamw) if inside else adamw
        ids = torch.zeros(1, tokens, dtype=torch.long)

        def step() -> None:
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        with track_memory(model, adamw) as tracker:
            step()
        return tracker.peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    args = parser.parse_args()
    print(f"GiB at the peak of the second step; {args.tokens} tokens, {args.layers} layers")
    for inside in (False, True):
        found = peak(args.tokens, args.layers, inside=inside)
        print(f"step {'in' if inside else 'after'} backward:")
        for kind in MemorySnapshot.__slots__:
            print(f"  {kind:18}{getattr(found, kind) / 2**30:8.2f}", flush=True)


if __name__ == "__main__":
    main()
