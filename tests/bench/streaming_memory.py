"""Bytes on the device of a LoRA step over a streamed base, by fakes: nothing is allocated.

Run: python -m tests.bench.streaming_memory [--model 8B] [--tokens 512] [--layers N]

Real shapes, LoRA (r=8, all linear layers), checkpointed layers whose inputs go to the host, the
fused loss, AdamW; attention is a kernel that keeps no scores. The host's memory is another device's
and does not count. What other kernels allocate inside themselves, and the CUDA context, come on
top.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from memlint_runtime import (
    checkpoint_activations,
    fuse_causal_lm_loss,
    offload_activations,
    stream_frozen_weights,
)
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.streaming import StreamedWeights
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig

from tests.bench.fake_models import bf16_llama
from tests.fake_card import CARD, CardCopies, carry, install_card, streaming_to_the_card

GIB = 2**30
_LLAMA = {"vocab_size": 128256, "use_cache": False, "max_position_embeddings": 131072}
CONFIGS: dict[str, dict[str, Any]] = {
    "8B": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
    },
    "70B": {
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Footprint:
    """Bytes: of weights on the host; on the device at the peak, and of it the ring and what stays
    (adapters, norms, their gradients and AdamW's states); over the bus in a step."""

    host: int
    peak: int
    ring: int
    stays: int
    moved: int


class _Nf4Matmul(torch.autograd.Function):
    """What bitsandbytes' does: the weight in 16 bit while it multiplies, twice."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, packed: Tensor, shape: tuple[int, int]) -> Tensor:
        ctx.packed, ctx.shape = packed, shape
        return hidden @ _dequantized(packed, shape).t()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0] @ _dequantized(ctx.packed, ctx.shape), None, None


def _dequantized(packed: Tensor, shape: tuple[int, int]) -> Tensor:
    return packed.new_empty(shape, dtype=torch.bfloat16)


class Nf4Linear(nn.Linear):
    """Bytes of a bitsandbytes layer, whose own parameters cannot be fakes: packed weights, a byte
    for 64 of them, and four for 256 of those."""

    def __init__(self, like: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = like.in_features, like.out_features
        count = like.weight.numel()
        for name, size, dtype in [
            ("weight", count // 2, torch.uint8),
            ("absmax", -(-count // 64), torch.uint8),
            ("nested_absmax", -(-count // (64 * 256)), torch.float32),
        ]:
            values = torch.empty(size, 1, dtype=dtype)
            self.register_parameter(name, nn.Parameter(values, requires_grad=False))
        self.register_parameter("bias", None)

    def forward(self, hidden: Tensor) -> Tensor:
        shape = (self.out_features, self.in_features)
        result: Tensor = _Nf4Matmul.apply(hidden, self.weight, shape)
        return result


class Adapted(nn.Module):
    """A linear map with LoRA beside it, in fp32 as PEFT keeps it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False, dtype=torch.float32)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False, dtype=torch.float32)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.base_layer(hidden)
        adapted = self.lora_B(self.lora_A(hidden.to(torch.float32))) * 2.0
        return (result + adapted).to(result.dtype)


def adapt(model: Any, *, quantized: bool, rank: int = 8) -> None:
    """The layers' linear maps as LoRA and QLoRA have them; all else frozen."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for name, linear in list(layer.named_modules()):
            if isinstance(linear, nn.Linear):
                path, _, last = name.rpartition(".")
                base = Nf4Linear(linear) if quantized else linear
                setattr(layer.get_submodule(path), last, Adapted(base, rank))


@contextlib.contextmanager
def streamed_step(
    name: str, *, quantized: bool, layers: int | None = None, buffers: int = 2
) -> Iterator[tuple[Any, torch.optim.Optimizer, StreamedWeights, CardCopies]]:
    """A model whose frozen base is streamed to the card, AdamW with its states, and what copies."""
    sizes = {**CONFIGS[name], **_LLAMA}
    if layers is not None:
        sizes["num_hidden_layers"] = layers
    with FakeTensorMode():
        model = bf16_llama(LlamaConfig(**sizes))
        adapt(model, quantized=quantized)
        model.enable_input_require_grads()
        offload = offload_activations(device=CARD, host="cpu", copies=_ToHost())
        checkpoint_activations(model, offload=offload)
        fuse_causal_lm_loss(model)
        with streaming_to_the_card(model):
            copies = CardCopies()
            streamed = stream_frozen_weights(model, copies=copies, buffers=buffers)
            carry(model, CARD, stays=streamed.is_streamed)
            trained = [p for p in model.parameters() if p.requires_grad]
            yield model, _optimizer_with_states(trained), streamed, copies


def footprint(
    name: str, tokens: int, *, quantized: bool, layers: int | None = None, buffers: int = 2
) -> Footprint:
    """A later step of AdamW, its states made before; all tensors on the card count."""
    with streamed_step(name, quantized=quantized, layers=layers, buffers=buffers) as step:
        model, optimizer, streamed, copies = step
        ids = torch.zeros(1, tokens, dtype=torch.long, device=CARD)
        with track_memory(model, optimizer, device=CARD) as tracker:
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            optimizer.step()
            gradients = sum(p.nbytes for p in model.parameters() if p.requires_grad)
            optimizer.zero_grad()
            stays = tracker.current.total + gradients
        return Footprint(
            host=sum(slot.num_bytes for slot in streamed._slots()),
            peak=tracker.peak.total,
            ring=streamed.ring.peak_bytes,
            stays=stays,
            moved=copies.num_bytes,
        )


def _optimizer_with_states(trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(trained)
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return optimizer


class _ToHost(CardCopies):
    """Activations travel both ways."""

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> None:
        assert source.device.type == CARD
        assert all(block.device.type == "cpu" for block in blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=[*CONFIGS])
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--blocks", choices=["nf4", "bf16"])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    install_card()
    print("GiB; peak: all on the device; moved: weights over the bus in a step")
    print("{:6}{:8}{:8}".format("model", "blocks", "tokens") + "".join(
        f"{head:>12}" for head in ("host", "peak", "ring", "stays", "moved", "seconds")
    ))  # fmt: skip
    for name in [args.model] if args.model else CONFIGS:
        for quantized in (True, False):
            if args.blocks is not None and quantized != (args.blocks == "nf4"):
                continue
            for tokens in [args.tokens] if args.tokens else (512, 4096):
                start = time.perf_counter()
                found = footprint(name, tokens, quantized=quantized, layers=args.layers)
                values = (found.host, found.peak, found.ring, found.stays, found.moved)
                cells = "".join(f"{value / GIB:12.2f}" for value in values)
                kind = "nf4" if quantized else "bf16"
                seconds = time.perf_counter() - start
                print(f"{name:6}{kind:8}{tokens:<8}{cells}{seconds:12.0f}", flush=True)


if __name__ == "__main__":
    main()
