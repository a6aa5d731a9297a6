"""What an optimizer step moves between GPUs and to the host, and how long that takes by itself.

A simple model, with rings: a reduction to shares, or a gathering of shares, sends (n - 1)/n of the
whole from each GPU, an all-reduce both. Sources: Rajbhandari et al., "ZeRO: Memory Optimizations
Toward Training Trillion Parameter Models" (2020), section 7; Ren et al., "ZeRO-Offload" (2021);
Liu et al., "Ring Attention with Blockwise Transformers" (2023). What overlaps with computing is
not taken off: the seconds order candidates, and are no promise.
"""

from __future__ import annotations

from memlint.memory import facts
from memlint.memory.gpus import Gpu
from memlint.memory.timeline import Timeline, cache_bytes
from memlint.parallel.strategies import Strategy
from memlint.source.record import NamedTuple

GPUS_OF_A_NODE = 8
BETWEEN_NODES = 50 * 10**9  # bytes a second from each GPU: 400 Gb/s
HOST_MEMORY = 100 * 10**9  # bytes a second, for all processes of a machine
# Bytes of host memory for each number that the CPU steps: gradient, weight and two moments in
# float32 are read, the last three written.
_STEPPED = 28
_STATES = 12  # bytes of those that stay, for each number


class Traffic(NamedTuple):
    """What one GPU moves in an optimizer step, in bytes. between: to other GPUs. to_host: to the
    host or back, whichever is more. stepped: numbers that the CPU of its machine updates. held:
    bytes of host memory that the processes of a machine keep for it."""

    between: int
    to_host: int = 0
    stepped: int = 0
    held: int = 0

    def seconds(self, gpu: Gpu, gpus: int) -> float:
        """How long it takes, one after the other, at nominal bandwidths."""
        stepping = self.stepped * _STEPPED / HOST_MEMORY
        return self.between / link_of(gpu, gpus) + self.to_host / gpu.host + stepping


def link_of(gpu: Gpu, gpus: int) -> int:
    """Return the bytes that each GPU sends to others in a second."""
    return gpu.link if gpus <= GPUS_OF_A_NODE else min(gpu.link, BETWEEN_NODES)


def traffic_of(timeline: Timeline, strategy: Strategy) -> Traffic:
    """Return what a step of a run moves. timeline: of the run under the strategy."""
    settings, holding = timeline.settings, timeline.holding
    gpus = settings.world_size or 1
    passes = settings.gradient_accumulation or 1
    gradients, computed = _gradients(timeline, strategy), max(timeline.run.compute, 2)
    weights = timeline.architecture.parameters * (computed if holding.full else holding.width)
    reduced = 1 if _reduces_once(timeline, strategy) else passes
    if strategy.sharding == "ddp":
        moved = 2 * gradients
    elif strategy.sharding in ("zero1", "zero2"):
        moved = (reduced + 1) * gradients  # the new weights go to all
    else:
        moved = reduced * gradients + 2 * passes * weights  # gathered in forward and in backward
    between = moved * (gpus - 1) // gpus + passes * _ring(timeline, strategy.contexts)
    if not strategy.host:
        return Traffic(between)
    here = min(gpus, GPUS_OF_A_NODE)
    stepped = sum(timeline.standing.trained()) * here // gpus
    moves_weights, by_fsdp = strategy.host == "parameters", strategy.engine == "FSDP"
    up = 2 * passes * weights if moves_weights else gradients
    # Two moments and the weight in float32, the gradient, and what waits of the weights.
    held = stepped * (_STATES + (4 if by_fsdp else holding.width))
    if moves_weights and not by_fsdp:
        held += weights * here // gpus
    return Traffic(between, max(up, reduced * gradients) // gpus, stepped, held)


def _gradients(timeline: Timeline, strategy: Strategy) -> int:
    """Bytes of all gradients as they are sent: FSDP reduces them in the dtype that it computes
    in."""
    base, adapter = timeline.standing.trained()
    holding, computed = timeline.holding, max(timeline.run.compute, 2)
    if strategy.engine != "FSDP":
        return base * holding.width + adapter * holding.adapter_width
    return base * (computed if timeline.settings.autocast else holding.width) + adapter * computed


def _reduces_once(timeline: Timeline, strategy: Strategy) -> bool:
    """True if gradients are reduced once a step, not after every micro-batch."""
    settings = timeline.settings
    if strategy.engine == "FSDP":
        return facts.defers_reduction(settings.versions, settings.trainer or "loop")
    return strategy.sharding in ("ddp", "zero1")


def _ring(timeline: Timeline, contexts: int) -> int:
    """Bytes of keys and values that go around in a micro-batch: in forward, again in backward, and
    their gradients."""
    if contexts < 2:
        return 0
    run = timeline.run
    whole = sum(
        stack.count * cache_bytes(stack.layer.attention, run.rows, run.length, run.compute)
        for stack in timeline.recording.stacks
    )
    return 3 * (contexts - 1) * whole
