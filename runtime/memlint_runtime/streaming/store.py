"""Where the weights of blocks wait: in host memory, or in the files that they came from.

`HostStore` gathers each block in one piece of host memory, which is locked in place. `FileStore`
leaves the weights in the memory-mapped files (safetensors' mapping): what waits is the operating
system's page cache, which several processes share and which may be smaller than the model. Blocks
pass through a few pieces of locked host memory (`STAGES`), read ahead of use. Cost: one more copy
on the host, and the disk's rate where the page cache is too small.

Named hazards of files, each with a test that breaks without its guard:
- A piece that is filled again while its bytes are still on their way: its copy ends first.
- Weights that change between passes, or on the device: what was read ahead is dropped.
- Readers that outlive the streaming: each thread reads one piece, and is waited for.
- Files that are written to, or become shorter: each pass looks at them before it reads.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

from memlint_runtime.device_copies import Copies
from memlint_runtime.streaming.mapped_files import MappedFiles
from memlint_runtime.streaming.page_lock import PageLock, page_aligned
from memlint_runtime.streaming.slots import from_bytes, outside_inference

if TYPE_CHECKING:
    from memlint_runtime.streaming.blocks import Block

__all__ = ["READER", "STAGES", "FileStore", "HostStore", "Store"]

# Pieces of host memory: one travels, one is ready, one is being read.
STAGES = 3
# The name of the threads that read.
READER = "memlint reads weights ahead"
# Bytes that a reader copies before it looks whether they are still wanted.
_READ = 16 * 2**20


class Store(Protocol):
    """Keeps the bytes of blocks; all methods are for one thread at a time.

    pages: what of its memory stays in place.
    """

    pages: PageLock

    def take(self, block: Block) -> None:
        """Keep what the holders of the block's slots hold now."""
        ...

    def send(self, block: Block, target: Tensor, copies: Copies, start: int = 0) -> Any:
        """Start to copy the block's bytes from `start` on to `target` (uint8); return a ticket."""
        ...

    def read_ahead(self, wanted: Iterable[tuple[Block, int, int]]) -> None:
        """Expect bytes of blocks, from and to, the next ones first."""
        return

    def forget(self, block: Block | None = None) -> None:
        """Drop what was read ahead, of one block or of all: the weights may change."""
        return

    def check(self) -> None:
        """Raise RuntimeError where what waits is no longer what was taken."""
        return

    def release(self) -> None:
        """Give the store's own memory back, at the end."""
        ...


class HostStore(Store):
    """Each block in one piece of host memory; nothing to read ahead, to forget or to check."""

    def __init__(self) -> None:
        self.pages = PageLock()
        self.pieces: dict[Block, Tensor] = {}

    def take(self, block: Block) -> None:
        piece = page_aligned(block.num_bytes)
        for slot in block.slots:
            home = from_bytes(piece, slot.offset, slot.home)
            home.copy_(slot.home)
            slot.home = home
            slot.put(home)
        former = self.pieces.get(block)
        if former is not None:
            self.pages.unlock(former)
        self.pieces[block] = piece

    def send(self, block: Block, target: Tensor, copies: Copies, start: int = 0) -> Any:
        piece = self.pieces[block]
        self.pages.lock(piece, target.device)
        return copies.fetch(target, (piece[start : start + target.numel()],))

    def release(self) -> None:
        self.pages.release()
        self.pieces.clear()


class _Part(NamedTuple):
    """Bytes of a block, as its layout on the device has them."""

    block: Block
    start: int
    stop: int


@dataclass(eq=False)
class _Stage:
    """A piece of host memory that parts of blocks pass through.

    part: whose bytes it holds, or will hold when `reader` has ended. sent: the copy out of it.
    """

    memory: Tensor
    part: _Part | None = None
    reader: threading.Thread | None = None
    sent: tuple[Copies, Any] | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def read(self, part: _Part) -> None:
        """Hold the bytes of `part`; the copy out of it ends first."""
        self.part = part
        sent, self.sent = self.sent, None
        self.stop.clear()
        _read(self, _sources(part), sent)

    def read_ahead(self, part: _Part) -> None:
        """The same in a thread."""
        self.part = part
        sent, self.sent = self.sent, None
        self.stop.clear()
        self.reader = threading.Thread(
            target=_read, args=(self, _sources(part), sent), name=READER, daemon=True
        )
        self.reader.start()

    def join(self) -> None:
        if self.reader is not None:
            self.reader.join()
            self.reader = None

    def drop(self) -> None:
        """Hold nothing that is worth keeping; a copy out of it may still be on its way."""
        self.stop.set()
        self.join()
        self.part = None


class FileStore:
    """Blocks stay in memory-mapped files.

    ahead: how often a part had been read, or was being read, when it was to travel. late: how
    often it had not.
    """

    def __init__(self) -> None:
        self.pages = PageLock()
        self.files = MappedFiles()
        self.ahead = 0
        self.late = 0
        self._largest = 0
        self._stages: list[_Stage] = []  # the one that was filled longest ago first

    @property
    def num_bytes(self) -> int:
        """Bytes of host memory of its own."""
        return sum(stage.memory.numel() for stage in self._stages)

    def take(self, block: Block) -> None:
        self.forget(block)
        for slot in block.slots:
            slot.home = slot.home.detach().to("cpu")
            slot.put(slot.home)
        self.files.watch(slot.home.data_ptr() for slot in block.slots)
        if not block.is_head and not self._stages:
            self._largest = max(self._largest, block.num_bytes)

    def send(self, block: Block, target: Tensor, copies: Copies, start: int = 0) -> Any:
        ticket: Any = None
        offset = 0
        for part in self._parts(block, start, start + target.numel()):
            stage = self._filled(part)
            self.pages.lock(stage.memory, target.device)
            length = part.stop - part.start
            piece = stage.memory[:length]
            ticket = copies.fetch(target[offset : offset + length], (piece,))
            stage.sent = copies, ticket
            offset += length
        return ticket

    @outside_inference
    def read_ahead(self, wanted: Iterable[tuple[Block, int, int]]) -> None:
        # One piece is left for what travels.
        parts = [next(self._parts(*each)) for each in itertools.islice(wanted, STAGES - 1)]
        for part in parts:
            if all(stage.part != part for stage in self._stages):
                self._free(keep=parts).read_ahead(part)

    def forget(self, block: Block | None = None) -> None:
        for stage in self._stages:
            if stage.part is not None and (block is None or stage.part.block is block):
                stage.drop()

    def check(self) -> None:
        self.files.check()

    def release(self) -> None:
        self.forget()
        self.pages.release()
        self._stages.clear()

    def _parts(self, block: Block, start: int, stop: int) -> Iterator[_Part]:
        """A head that travels whole is larger than a piece."""
        while start < stop:
            end = min(start + self._largest, stop)
            yield _Part(block, start, end)
            start = end

    @outside_inference
    def _filled(self, part: _Part) -> _Stage:
        """The stage that holds the bytes of `part`; read now, unless they were read ahead."""
        stage = next((one for one in self._stages if one.part == part), None)
        if stage is not None:
            self.ahead += 1
            stage.join()
            return stage
        self.late += 1
        stage = self._free(keep=())
        stage.read(part)
        return stage

    def _free(self, keep: Sequence[_Part]) -> _Stage:
        """A stage that holds none of `keep`, which are fewer than the stages; now last in turn."""
        if len(self._stages) < STAGES:
            stage = _Stage(page_aligned(self._largest))
        else:
            stage = next(one for one in self._stages if one.part not in keep)
            self._stages.remove(stage)
            stage.drop()
        self._stages.append(stage)
        return stage


def _sources(part: _Part) -> list[tuple[int, Tensor, int, int]]:
    """Where the bytes of a part are: its place, the tensor, and the tensor's bytes from, to."""
    found = []
    for slot in part.block.slots:
        start = max(part.start - slot.offset, 0)
        stop = min(part.stop - slot.offset, slot.num_bytes)
        if start < stop:
            found.append((slot.offset + start - part.start, slot.home, start, stop))
    return found


def _read(
    stage: _Stage, sources: list[tuple[int, Tensor, int, int]], sent: tuple[Copies, Any] | None
) -> None:
    """Fill a stage, after the copy out of it. `memmove` lets other threads of Python run."""
    _finish(sent)
    for place, tensor, start, stop in sources:
        target, source = stage.memory.data_ptr() + place - start, tensor.data_ptr()
        for at in range(start, stop, _READ):
            if stage.stop.is_set():
                return
            ctypes.memmove(target + at, source + at, min(_READ, stop - at))


def _finish(sent: tuple[Copies, Any] | None) -> None:
    if sent is not None:
        copies, ticket = sent
        copies.finish(ticket)
