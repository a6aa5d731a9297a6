"""Peak memory of a training step at long context, by fakes: each measure alone, then together.

Run: python -m tests.bench.long_context [--tokens 32768] [--layers 32] [--full]

Llama-3.1-8B's shape in bf16, batch 1, forward and backward, nothing allocated. A frozen base with
one trained matrix a layer stands for LoRA, whose own memory is small; `--full` trains all weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from memlint_runtime import (
    checkpoint_activations,
    fuse_causal_lm_loss,
    offload_activations,
    tile_mlp,
    track_memory,
)
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import MemorySnapshot
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig

from tests.bench.fake_models import bf16_llama


def llama_8b(layers: int) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        use_cache=False,
    )


def _offload() -> Any:
    return offload_activations(device="cpu", host="meta", copies=SynchronousCopies())


def _checkpoint(model: nn.Module) -> None:
    checkpoint_activations(model)


def _checkpoint_offload(model: nn.Module) -> None:
    checkpoint_activations(model, offload=_offload())


def _fuse(model: nn.Module) -> None:
    # A large workspace, because shapes of fakes that depend on labels are slow to work out.
    fuse_causal_lm_loss(model, workspace_bytes=2**29)


def _tile(model: nn.Module) -> None:
    tile_mlp(model)


MEASURES: dict[str, Sequence[Callable[[nn.Module], None]]] = {
    "plain": (),
    "fused loss": (_fuse,),
    "tiled MLP": (_tile,),
    "checkpointed": (_checkpoint,),
    "checkpointed, tiled MLP": (_checkpoint, _tile),
    "checkpointed, fused loss": (_checkpoint, _fuse),
    "checkpointed, offloaded": (_checkpoint_offload,),
    "checkpointed, offloaded, tiled MLP": (_checkpoint_offload, _tile),
    "checkpointed, offloaded, fused loss": (_checkpoint_offload, _fuse),
    "all": (_checkpoint_offload, _tile, _fuse),
}


def peak(measures: Sequence[Callable[[nn.Module], None]], args: Any) -> MemorySnapshot:
    """The largest snapshot of one forward and backward pass."""
    with FakeTensorMode():
        model = bf16_llama(llama_8b(args.layers))
        if not args.full:
            model.requires_grad_(False)
            for layer in model.model.layers:
                layer.self_attn.q_proj.weight.requires_grad_()
        for measure in measures:
            measure(model)
        ids = torch.zeros(1, args.tokens, dtype=torch.long)
        with track_memory(model) as tracker:
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
        return tracker.peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    print(f"GiB at the peak; {args.tokens} tokens, {args.layers} layers, full={args.full}")
    kinds = ("total", "parameters", "gradients", "activations", "temporaries")
    print(f"{'':38}" + "".join(f"{kind:>13}" for kind in kinds) + f"{'seconds':>9}")
    for name, measures in MEASURES.items():
        start = time.perf_counter()
        found = peak(measures, args)
        cells = "".join(f"{getattr(found, kind) / 2**30:13.2f}" for kind in kinds)
        print(f"{name:38}{cells}{time.perf_counter() - start:9.1f}", flush=True)


if __name__ == "__main__":
    main()
