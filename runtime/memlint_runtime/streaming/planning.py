"""What streaming would cost and save, from a model's configuration and two rates.

    plan = plan_streaming(config, "RTX 4090", tokens=4096, quantization="nf4")
    print(plan)

A roofline: each block takes as long as its computation or its copy, whichever is longer, and the
first copy is not hidden. Rates of computation are what training reaches (a share of the dense
16-bit peak of the data sheet), rates of copies what pinned memory reaches over the bus. Figures
that were measured on a machine can be given instead. LoRA with checkpointed layers is assumed: each
block computes three times (forward, again, and the gradient by its input).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["BUSES", "GPUS", "Gpu", "Host", "StreamingPlan", "plan_streaming"]

Quantization = Literal["nf4", "int8"]

# Share of the peak that training of dense blocks reaches.
_UTILIZATION = 0.5
# Passes over a block's weights in one step: forward, and recomputation with backward together.
_READS = 2
_ALIGNED = 256
# Bits of a weight with its scales: int8 has one for each row, nf4 one byte for 64 weights.
_BITS = {None: 16.0, "int8": 8.0 + 32.0 / 4096, "nf4": 4.0 + 8.0 / 64 + 32.0 / (64 * 256)}
_WORTH_IT = 1.05


@dataclass(frozen=True)
class Gpu:
    """memory_bytes; teraflops: dense 16-bit peak; bus_bytes: per second from pinned memory."""

    name: str
    memory_bytes: int
    teraflops: float
    bus_bytes: float


@dataclass(frozen=True)
class Host:
    """memory_bytes that weights may take on the host."""

    memory_bytes: int


# Bytes a second that copies from pinned memory reach, x16.
BUSES = {"PCIe 3": 12.0e9, "PCIe 4": 24.5e9, "PCIe 5": 50.0e9}
# The linter's names with MiB, dense 16-bit teraflops (accumulated in float32), generation of the
# bus (one less where it has half the lanes). Of cards of one name the first is meant by it alone.
_ROWS = """
t4-16gb 15360 65 3; p100-16gb 16384 21 3; v100-16gb 16384 125 3; v100-32gb 32768 125 3;
a10-24gb 23028 125 4; a10g-24gb 23028 70 4; a30-24gb 24576 165 4; a40-48gb 46068 150 4;
a16-16gb 15356 18 4; a2-16gb 15356 18 3; a100-80gb 81920 312 4; a100-40gb 40960 312 4;
h100-80gb 81559 989 5; h100-nvl-94gb 95830 835 5; h100-96gb 97871 989 5; h200-141gb 143771 989 5;
h20-96gb 97871 148 5; gh200-144gb 147456 989 5; b200-180gb 183359 2250 5; b100-180gb 183359 1750 5;
b300-288gb 275040 2250 5; l4-24gb 23034 121 4; l40-48gb 46068 181 4; l40s-48gb 46068 362 4;
l20-48gb 46068 119 4; rtx2060-6gb 6144 26 3; rtx2070-8gb 8192 30 3; rtx2080ti-11gb 11264 54 3;
titan-rtx-24gb 24576 130 3; rtx3050-laptop-4gb 4096 14 3; rtx3060-12gb 12288 25 4;
rtx3070-8gb 8192 41 4; rtx3080-10gb 10240 60 4; rtx3080ti-12gb 12288 68 4; rtx3090-24gb 24576 71 4;
rtx4060ti-16gb 16380 44 3; rtx4060-8gb 8188 30 3; rtx4070-12gb 12282 58 4;
rtx4070ti-super-16gb 16376 88 4; rtx4080-16gb 16376 97 4; rtx4090-24gb 24564 165 4;
rtx5070ti-16gb 16303 88 5; rtx5080-16gb 16303 113 5; rtx5090-32gb 32607 209 5;
rtxa4000-16gb 16376 77 4; rtxa5000-24gb 24564 111 4; rtxa6000-48gb 49140 155 4;
rtx6000ada-48gb 49140 364 4; rtxpro6000-96gb 97887 503 5; mi250x-64gb 65520 191 4;
mi300x-192gb 196592 1307 5
"""
GPUS = {
    name: Gpu(name, int(mib) * 2**20, float(teraflops), BUSES[f"PCIe {bus}"])
    for name, mib, teraflops, bus in (row.split() for row in _ROWS.split(";"))
}


def _find(name: str) -> Gpu:
    """A GPU by the linter's name, with or without its memory, spelled in any way."""
    table: dict[str, Gpu] = {}
    for gpu in GPUS.values():
        for spelling in (gpu.name, gpu.name.rpartition("-")[0]):
            table.setdefault(spelling.replace("-", ""), gpu)
    plain = "".join(filter(str.isalnum, name.lower()))
    if plain not in table:
        raise ValueError(f"gpu is one of {', '.join(GPUS)}, or a Gpu, got {name!r}")
    return table[plain]


@dataclass(frozen=True)
class StreamingPlan:
    """What a step would take; bytes, and seconds for all tokens of a step.

    weight_bytes: of the whole base. host_bytes: of it, on the host when streamed. ring_bytes: the
    buffers. moved_bytes: over the bus in a step. resident_seconds, streamed_seconds: a step.
    """

    tokens: int
    layers: int
    weight_bytes: int
    host_bytes: int
    ring_bytes: int
    moved_bytes: int
    compute_seconds: float
    copy_seconds: float
    resident_seconds: float
    streamed_seconds: float
    fits_resident: bool
    fits_host: bool

    @property
    def slowdown(self) -> float:
        """Time of a streamed step by a resident one."""
        return self.streamed_seconds / self.resident_seconds

    @property
    def tokens_per_second(self) -> float:
        """Streamed."""
        return self.tokens / self.streamed_seconds

    @property
    def is_worth_it(self) -> bool:
        """True if it makes a run fit, or costs less than 5 %."""
        return self.fits_host and (not self.fits_resident or self.slowdown <= _WORTH_IT)

    def __str__(self) -> str:
        gib = 2**30
        verdict = "worth it" if self.is_worth_it else "not worth it"
        reason = (
            "the base leaves no room on the device"
            if not self.fits_resident
            else f"the base fits, and a step takes {self.slowdown:.2f} times as long"
        )
        if not self.fits_host:
            reason = f"the host has no room for {self.host_bytes / gib:.1f} GiB"
        return (
            f"{self.tokens} tokens a step: {self.ring_bytes / gib:.2f} GiB of buffers in place of "
            f"{self.weight_bytes / gib:.2f} GiB of weights; {self.moved_bytes / gib:.1f} GiB over "
            f"the bus; {self.tokens_per_second:,.0f} tokens/s ({self.slowdown:.2f} times the "
            f"time); {verdict}: {reason}"
        )


def plan_streaming(
    config: Any,
    gpu: Gpu | str,
    host: Host | None = None,
    *,
    tokens: int = 4096,
    sequence: int | None = None,
    quantization: Quantization | None = None,
    buffers: int = 2,
    utilization: float = _UTILIZATION,
    checkpointed: bool = True,
    other_bytes: int = 2**30,
) -> StreamingPlan:
    """Plan for a dense decoder of `config` (transformers' names of sizes).

    Args:
        config: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, vocab_size,
            and num_key_value_heads, head_dim, tie_word_embeddings where they differ.
        gpu: a name of `GPUS`, as "RTX 4090" or "a100-40gb", or figures of one's own.
        host: memory for weights; unlimited unless given.
        tokens: of one forward and backward pass. sequence: length of its documents; `tokens`
            unless given, for attention's share.
        quantization: of the blocks; the embedding and the head are 16-bit.
        buffers: as in `stream_frozen_weights`.
        utilization: share of the peak rate that the computation reaches.
        checkpointed: whether layers are computed again in backward.
        other_bytes: what else the run has on the device: activations, adapters, the CUDA context.

    Raises ValueError for an unknown GPU, or sizes that a configuration lacks.
    """
    gpu = _find(gpu) if isinstance(gpu, str) else gpu
    if tokens < 1 or buffers < 1 or not 0 < utilization <= 1:
        raise ValueError(
            f"tokens and buffers are 1 or more, utilization up to 1, got {tokens}, {buffers} and "
            f"{utilization}"
        )
    shape = _Shape.of(config)
    block_bytes = round(shape.block_weights * _BITS[quantization] / 8)
    ends_bytes = 2 * shape.end_weights * (1 if shape.tied else 2)
    head_bytes = 2 * shape.end_weights
    weight_bytes = shape.layers * block_bytes + ends_bytes
    passes = 3 if checkpointed else 2
    rate = gpu.teraflops * 1e12 * utilization
    block_flops = 2 * shape.block_weights * tokens + 2 * shape.attended * tokens * (
        sequence or tokens
    )
    # The head of a fused loss: logits, and the gradient by the hidden states beside them.
    head_flops = 4 * shape.end_weights * tokens
    compute = (passes * shape.layers * block_flops + head_flops) / rate
    moved = _READS * shape.layers * block_bytes + head_bytes
    # A block that the next pass begins with stays: the turn at the top is shared.
    moved -= min(buffers, shape.layers) * block_bytes
    block_copy = block_bytes / gpu.bus_bytes
    forward = max(block_flops / rate, block_copy)
    backward = max((passes - 1) * block_flops / rate, block_copy)
    head = max(head_flops / rate, head_bytes / gpu.bus_bytes)
    streamed = block_copy + shape.layers * (forward + backward) + head
    return StreamingPlan(
        tokens=tokens,
        layers=shape.layers,
        weight_bytes=weight_bytes,
        host_bytes=weight_bytes,
        ring_bytes=buffers * -(-block_bytes // _ALIGNED) * _ALIGNED,
        moved_bytes=moved,
        compute_seconds=compute,
        copy_seconds=moved / gpu.bus_bytes,
        resident_seconds=compute,
        streamed_seconds=streamed,
        fits_resident=weight_bytes + other_bytes <= gpu.memory_bytes,
        fits_host=host is None or weight_bytes <= host.memory_bytes,
    )


@dataclass(frozen=True)
class _Shape:
    """Weights of a block and of the embedding; attended: what one token's attention multiplies by
    the length (causal: half of both matmuls)."""

    layers: int
    block_weights: int
    end_weights: int
    attended: int
    tied: bool

    @staticmethod
    def of(config: Any) -> _Shape:
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        try:
            hidden, layers = int(text.hidden_size), int(text.num_hidden_layers)
            heads, vocabulary = int(text.num_attention_heads), int(text.vocab_size)
            wide = int(text.intermediate_size)
        except (AttributeError, TypeError) as error:
            raise ValueError(
                "plan_streaming wants a decoder's sizes (hidden_size, intermediate_size, "
                f"num_hidden_layers, num_attention_heads, vocab_size): {error}"
            ) from None
        head_dim = int(getattr(text, "head_dim", None) or hidden // heads)
        groups = int(getattr(text, "num_key_value_heads", None) or heads)
        attention = hidden * head_dim * (2 * heads + 2 * groups)
        return _Shape(
            layers=layers,
            block_weights=attention + 3 * hidden * wide,
            end_weights=vocabulary * hidden,
            attended=heads * head_dim,
            tied=bool(getattr(text, "tie_word_embeddings", False)),
        )
