"""Copies between a device and the host, beside the computation where the device has streams.

Three calls, one implementation for streams and one without. Both take the bytes of a storage as a
uint8 tensor on the device and blocks of host memory (`host_pool`).

Memory on the device belongs to the stream that computes. A copy waits for what that stream has
been given so far, and `wait` makes a stream wait for the copy. Any stream may use the bytes that
calls `wait` before; `let_go` makes the memory's own stream wait for all of them. So no
`record_stream` is needed, and memory returns to the allocator at a point that is the same in every
run. What was allocated on another stream, as by a loader that copies ahead, needs `record_stream`
for the computing stream, as PyTorch wants it for any use there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Copies", "StreamCopies", "SynchronousCopies", "copies_for"]


class Copies(Protocol):
    """How bytes travel. A ticket stands for a copy under way."""

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        """Start copying `source` (uint8, on the device) into `blocks`; return a ticket."""
        ...

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        """Start copying `blocks` into `target` (uint8, on the device); return a ticket."""
        ...

    def is_done(self, ticket: Any) -> bool:
        """True if the copy has ended, without waiting."""
        ...

    def wait(self, ticket: Any) -> None:
        """Let the computation go on only after the copy. Twice is harmless."""
        return

    def let_go(self, ticket: Any) -> None:
        """Let the memory that was waited for be used anew only after those that use it now."""
        return

    def leave(self, memory: Tensor, ticket: Any) -> None:
        """Let `memory`, which is dropped now, be used anew only after the copy; any thread may ask,
        and no stream waits."""
        return

    def finish(self, ticket: Any) -> None:
        """Let the calling thread go on only after the copy; any thread may ask."""
        return


class SynchronousCopies(Copies):
    """For devices without streams: every copy has ended when the call returns, and nobody waits."""

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> None:
        for part, block in _pairs(source, blocks):
            block.copy_(part)

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> None:
        for part, block in _pairs(target, blocks):
            part.copy_(block)

    def is_done(self, ticket: Any) -> bool:
        return True


@dataclass(eq=False)
class _Ticket:
    """A copy on a side stream. computing: the stream whose memory it is. waiting: the streams that
    go on only after it."""

    event: Any
    device: torch.device
    computing: Any
    waiting: list[Any] = field(default_factory=list)


class StreamCopies:
    """Copies on a side stream of each device; blocks must be pinned to run beside compute.

    One stream for both directions keeps copies into and out of a reused block in order.
    """

    def __init__(self, device_type: str) -> None:
        self._module: Any = torch.get_device_module(device_type)
        self._sides: dict[torch.device, Any] = {}

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        pairs = [(block, part) for part, block in _pairs(source, blocks)]
        return self._copy(pairs, source.device)

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> Any:
        return self._copy(_pairs(target, blocks), target.device)

    def _copy(self, pairs: list[tuple[Tensor, Tensor]], device: torch.device) -> Any:
        if device not in self._sides:
            self._sides[device] = self._module.Stream(device)
        side = self._sides[device]
        # The computing stream is asked for each time: backward runs on the forward's stream, in
        # another thread, and FSDP has streams of its own.
        computing = self._module.current_stream(device)
        side.wait_stream(computing)
        with self._module.stream(side):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
            return _Ticket(side.record_event(), device, computing)

    def is_done(self, ticket: _Ticket) -> bool:
        return bool(ticket.event.query())

    def wait(self, ticket: _Ticket) -> None:
        current = self._module.current_stream(ticket.device)
        # Whoever asks on another stream: the memory goes back to the computing one.
        for stream in (current, ticket.computing):
            if stream not in ticket.waiting:
                stream.wait_event(ticket.event)
                ticket.waiting.append(stream)

    def let_go(self, ticket: _Ticket) -> None:
        for stream in ticket.waiting:
            if stream != ticket.computing:
                ticket.computing.wait_stream(stream)

    def leave(self, memory: Tensor, ticket: _Ticket) -> None:
        memory.record_stream(self._sides[ticket.device])

    def finish(self, ticket: _Ticket) -> None:
        # A new thread begins on the first device, and would make a context there.
        with self._module.device(ticket.device):
            ticket.event.synchronize()


def copies_for(device_type: str) -> Copies:
    """What fits a type of device: streams on an accelerator, plain copies on the CPU."""
    return SynchronousCopies() if device_type in ("cpu", "meta") else StreamCopies(device_type)


def _pairs(whole: Tensor, blocks: tuple[Tensor, ...]) -> list[tuple[Tensor, Tensor]]:
    """Parts of `whole`, in order, each with the equally long beginning of its block."""
    pairs = []
    start = 0
    for block in blocks:
        end = min(start + block.numel(), whole.numel())
        pairs.append((whole[start:end], block[: end - start]))
        start = end
    return pairs
