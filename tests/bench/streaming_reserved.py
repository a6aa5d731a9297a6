"""What torch's allocator reserves for a streamed base, beside what is allocated: no GPU.

Run: python -m tests.bench.streaming_reserved [--model 8B] [--layers N] [--blocks bf16] [--room 1.1]

The steps of `streaming_memory` with lengths that change, each storage handed to a model of torch's
caching allocator with segments of fixed size (`memlint.memory.allocator`) at the moment when it is
made, resized or dropped. Once as on a GPU, where the ring has a pool of its own; once with the
ring's blocks among everything else, whose memory is split as soon as they leave. With ``--room``,
once more on a card of so many times what is allocated: there the allocator gives its free segments
back before it asks for more, and what is then reserved says whether such a card suffices.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from memlint_runtime.fake_memory import Kind, MemoryTracker
from memlint_runtime.streaming.blocks import RingMemory
from torch import Tensor

from memlint.memory.allocator import CachingAllocator
from tests.bench.streaming_memory import CONFIGS, GIB, streamed_step
from tests.fake_card import CARD, install_card

LENGTHS = (4096, 640, 3072, 1500, 4096, 2200)


@dataclass(frozen=True)
class Reserved:
    """Bytes at their peaks."""

    allocated: int
    reserved: int
    ring: int

    @property
    def ratio(self) -> float:
        return self.reserved / self.allocated

    @property
    def cells(self) -> list[str]:
        return [f"{self.reserved / GIB:.2f}", f"{self.ratio:.3f}"]


class _Allocations(MemoryTracker):
    """Hands every storage on the card to an allocator, the ring's to one of its own if `apart`."""

    def __init__(self, models: Any, optimizers: Any, *, apart: bool, capacity: int = 0) -> None:
        super().__init__(models, optimizers, device=CARD)
        self.main = CachingAllocator(capacity)
        self.ring = CachingAllocator() if apart else self.main
        self.in_ring = False
        self.peak_allocated = 0
        self._seen: dict[int, tuple[Any, int, CachingAllocator]] = {}

    def _book(self, tensor: Tensor, kind: Kind, *, force: bool = False) -> None:
        super()._book(tensor, kind, force=force)
        if tensor.device.type != CARD:
            return
        storage = self._live.get(tensor.untyped_storage()._cdata)
        if storage is None:
            return
        _, before, allocator = self._seen.get(id(storage), (None, 0, None))
        if before == storage.num_bytes:
            return
        if allocator is None:
            allocator = self.ring if self.in_ring else self.main
        allocator.release(id(storage))
        if storage.num_bytes:
            allocator.allocate(id(storage), storage.num_bytes)
        self._seen[id(storage)] = storage, storage.num_bytes, allocator
        both = {id(one): one.allocated for one in (self.main, self.ring)}
        self.peak_allocated = max(self.peak_allocated, sum(both.values()))

    def _book_freed(self) -> None:
        for storage in self._freed:
            _, _, allocator = self._seen.pop(id(storage), (None, 0, self.main))
            allocator.release(id(storage))
        super()._book_freed()

    def reserved(self) -> Reserved:
        both = {id(one): one.peak_reserved for one in (self.main, self.ring)}
        return Reserved(self.peak_allocated, sum(both.values()), self.ring.peak_reserved)

    @contextmanager
    def watching_ring(self) -> Iterator[None]:
        """Know what lies in the ring's memory."""
        own = RingMemory.on

        @contextmanager
        def on(memory: RingMemory, device: torch.device) -> Iterator[None]:
            with own(memory, device):
                self.in_ring = True
                try:
                    yield
                finally:
                    self.in_ring = False

        RingMemory.on = on  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            RingMemory.on = own  # type: ignore[method-assign]


def reserved(
    name: str, *, quantized: bool, layers: int | None, apart: bool, capacity: int = 0
) -> Reserved:
    """Of AdamW steps of all LENGTHS. capacity: what the card has beside the ring's pool, bytes."""
    with streamed_step(name, quantized=quantized, layers=layers) as (model, optimizer, *_):
        tracker = _Allocations([model], [optimizer], apart=apart, capacity=capacity)
        with tracker.watching_ring(), tracker:
            for tokens in LENGTHS:
                ids = torch.zeros(1, tokens, dtype=torch.long, device=CARD)
                model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        return tracker.reserved()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=[*CONFIGS])
    parser.add_argument("--layers", type=int)
    parser.add_argument("--blocks", choices=["nf4", "bf16"])
    parser.add_argument("--room", type=float, help="a card of so many times what is allocated")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    install_card()
    other = f"on {args.room:g} of it" if args.room else "without a pool"
    print(f"| model | blocks | allocated GiB | reserved | of it | {other} | of it |")
    print("| --- " * 7 + "|")
    for name in [args.model] if args.model else CONFIGS:
        for kind in [args.blocks] if args.blocks else ("bf16", "nf4"):
            how = {"quantized": kind == "nf4", "layers": args.layers}
            own = reserved(name, **how, apart=True)
            room = int((args.room or 0) * own.allocated) - own.ring
            second = reserved(name, **how, apart=bool(args.room), capacity=max(room, 0))
            cells = [f"{own.allocated / GIB:.2f}", *own.cells, *second.cells]
            print("| " + " | ".join([name, kind, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
