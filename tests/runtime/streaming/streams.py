"""Streams of CUDA, simulated: copies run in any order that CUDA allows, and races are found.

`scheduled(seed)` gives `StreamCopies` over simulated streams. What is copied on a side stream waits
in its queue and runs when somebody has to wait for it, or before, by chance: seed None runs it at
the last moment, 0 as soon as it may, others now and then. What the computing streams are given runs
at once, as the laziest reader of the queues cannot tell.

Whether an order is *forced* is another question than whether it came about. So every access is
noted with a vector clock: a read or a write of a buffer that no event orders behind the write or
the reads before it raises, and so does memory that is given back while a stream that its own does
not wait for may still use it.

Values are those of a CPU. Wrap a run in `watching(streams)` to note what operations read.
"""

from __future__ import annotations

import contextlib
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from memlint_runtime.device_copies import StreamCopies
from memlint_runtime.streaming import blocks
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Streams", "scheduled", "watching"]


@dataclass(eq=False)
class _Access:
    """The last write to a buffer and the reads since, as (stream, its time)."""

    home: Stream
    write: tuple[Stream, int]
    reads: list[tuple[Stream, int]] = field(default_factory=list)


class Stream:
    """A queue, and what of other streams it is known to come after."""

    def __init__(self, owner: Streams, name: str) -> None:
        self.owner, self.name = owner, name
        self.time = 0
        self.after: dict[Stream, int] = {}
        self.queue: list[tuple[int, Callable[[], None]]] = []
        self.lock = threading.RLock()  # threads that read ahead wait for copies, too

    def tick(self) -> int:
        self.time += 1
        return self.time

    def knows(self, access: tuple[Stream, int]) -> bool:
        stream, time = access
        return stream is self or self.after.get(stream, 0) >= time

    def record_event(self) -> Event:
        return Event(self, self.tick(), {**self.after})

    def wait_event(self, event: Event) -> None:
        self.owner.run_some()
        if self.owner.is_lazy(self):
            event.stream.run(event.time)
        for stream, time in [*event.after.items(), (event.stream, event.time)]:
            self.after[stream] = max(self.after.get(stream, 0), time)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def run(self, until: int) -> None:
        with self.lock:
            while self.queue and self.queue[0][0] <= until:
                self.queue.pop(0)[1]()


@dataclass(frozen=True, eq=False)
class Event:
    stream: Stream
    time: int
    after: dict[Stream, int]

    def query(self) -> bool:
        self.stream.owner.run_some()
        return not self.stream.queue or self.stream.queue[0][0] > self.time

    def synchronize(self) -> None:
        self.stream.run(self.time)


class Streams:
    """In the place of a device's module: `torch.cuda`, as far as copies use it."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.main = Stream(self, "main")
        self.sides: list[Stream] = []
        self.known: weakref.WeakKeyDictionary[Any, _Access] = weakref.WeakKeyDictionary()
        self._present = [self.main]
        self._unseen = threading.local()

    def current_stream(self, device: Any = None) -> Stream:
        self.run_some()
        return self._present[-1]

    def Stream(self, device: Any = None) -> Stream:  # noqa: N802 (torch's name)
        self.sides.append(Stream(self, f"side {len(self.sides)}"))
        return self.sides[-1]

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self._present.append(stream)
        try:
            with _Queueing(self, stream) if stream in self.sides else contextlib.nullcontext():
                yield
        finally:
            self._present.pop()

    def device(self, device: Any) -> Any:
        return contextlib.nullcontext()

    def is_lazy(self, stream: Stream) -> bool:
        """Whether a stream that waits is one that computes: these run ahead of no one."""
        return stream not in self.sides

    def run_some(self) -> None:
        """What CUDA may have done by now."""
        for side in self.sides if self.seed is not None else ():
            with side.lock:
                while side.queue and (self.seed == 0 or self.chance.random() < 0.3):
                    side.run(side.queue[0][0])

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """What a copy does itself is noted when it is issued."""
        self._unseen.now = True
        try:
            yield
        finally:
            self._unseen.now = False

    @property
    def is_unseen(self) -> bool:
        return getattr(self._unseen, "now", False)

    # -- who may touch what ------------------------------------------------------------------

    def write(self, storage: Any, stream: Stream) -> None:
        access = self.known.get(storage)
        if access is None:
            self.known[storage] = _Access(self._present[0], (stream, stream.tick()))
            return
        for before in (access.write, *access.reads):
            self._expect(stream.knows(before), f"{stream.name} writes what {before[0].name} uses")
        access.write, access.reads = (stream, stream.tick()), []

    def read(self, storage: Any, stream: Stream) -> None:
        access = self.known.get(storage)
        if access is not None:
            known = stream.knows(access.write)
            self._expect(known, f"{stream.name} reads what {access.write[0].name} writes")
            access.reads.append((stream, stream.tick()))

    def give_back(self, storage: Any) -> None:
        """To the pool of its own stream, which hands it out again in its own order."""
        access = self.known.pop(storage, None)
        for before in () if access is None else (access.write, *access.reads):
            assert access is not None
            self._expect(access.home.knows(before), f"freed while {before[0].name} uses it")

    def hand_out(self, storage: Any) -> None:
        """As new memory of the stream that computes: whatever had it is before this."""
        home = self._present[-1]
        self.known[storage] = _Access(home, (home, home.tick()))

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"a race: {what}")


class _Queueing(TorchFunctionMode):
    """Copies on a side stream wait in its queue; their targets hold rubbish until then."""

    def __init__(self, owner: Streams, stream: Stream) -> None:
        super().__init__()
        self.owner, self.side = owner, stream

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is not Tensor.copy_:
            return function(*args, **(kwargs or {}))
        target, source = args
        storage = target.untyped_storage()
        self.owner.write(storage, self.side)
        seen, start, length = weakref.ref(storage), target.storage_offset(), target.numel()
        with self.owner.unseen():
            target.fill_(0xFF)

        def run() -> None:
            storage = seen()
            assert storage is not None, "memory was dropped while it was being written"
            assert storage.nbytes() >= start + length, "freed under a copy"
            with self.owner.unseen():
                there = torch.empty(0, dtype=torch.uint8).set_(storage, start, (length,))
                there.copy_(source)

        self.side.queue.append((self.side.time, run))
        return target


class _Reading(TorchDispatchMode):
    """Notes the storages that operations are given."""

    def __init__(self, owner: Streams) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.owner = owner

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not (self.owner.is_unseen or function.is_view):
            for leaf in tree_leaves((args, kwargs)):
                if isinstance(leaf, Tensor):
                    self.owner.read(leaf.untyped_storage(), self.owner._present[-1])
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def watching(streams: Streams) -> Iterator[None]:
    """Note what operations read, and buffers that are given back."""
    own = blocks._resize

    def resize(flat: Tensor, num_bytes: int) -> None:
        if num_bytes == 0:
            streams.give_back(flat.untyped_storage())
        own(flat, num_bytes)
        if num_bytes:
            streams.hand_out(flat.untyped_storage())

    blocks._resize = resize
    try:
        with _Reading(streams):
            yield
    finally:
        blocks._resize = own


def scheduled(seed: int | None) -> tuple[StreamCopies, Streams]:
    """Copies on simulated streams, in an order by chance."""
    streams, copies = Streams(seed), StreamCopies("cpu")
    copies._module = streams
    return copies, streams
