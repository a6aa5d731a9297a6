"""Reserved memory: a few steps of the run played through the caching allocator.

Reserved exceeds allocated because freed blocks do not fit what is wanted next: saved tensors are
carved from the holes that temporaries leave, so that the next layer's temporaries need new
segments. How much depends on sizes and order alone, which the traces of ``tape`` have. A few
layers are played one by one; what the others keep (inputs, saved tensors, gradients, states) is
allocated beside theirs in the same sizes, so that the totals are those of the whole model.
"""

from collections.abc import Sequence

from memlint.memory.allocator import CachingAllocator
from memlint.memory.lifetimes import Trace
from memlint.source.record import Record

_PLAYED = 12
_PLAYED_OFTEN = 2  # where many batches are played
_MOST = 3000  # tensors of the layers that are not played; more are allocated several as one
_EXACT = 0.01  # of the peak: nearer nobody needs the least room
_SMALL = 2**20  # smaller tensors come from pools of their own and make no holes


class Play(Record):
    """What is played.

    layer, head: traces. depth: layers. checkpointed: whether layers run again in backward.
    offloaded: whether what they keep leaves the GPU. input_kept: whether a layer's input is saved
    without checkpointing. input: bytes of a layer's input. gradients, states, temporaries: bytes
    of each kind for each byte of the whole weight gradients. single: temporaries of a step that
    takes parameters one by one, for each byte of that one's gradient; single_most: bytes of the
    largest. embedding: bytes of the embedding's gradient; tied: whether that is the head's as well.
    gathered: bytes of a layer's gathered weights. fixed: bytes that live throughout, without
    states. leak: whether input gradients stay until backward is over. scales: sizes of the
    micro-batches, as shares of the largest. windows: how many micro-batches make a step; each
    number is a play of its own.
    """

    layer: Trace
    head: Trace
    depth: int
    checkpointed: bool
    offloaded: bool
    input_kept: bool
    input: int
    gradients: float
    states: float
    temporaries: float
    single: float
    single_most: int
    embedding: int
    tied: bool
    gathered: int
    fixed: int
    leak: bool
    capacity: int
    scales: tuple[float, ...] = (1.0, 1.0)
    windows: tuple[int, ...] = (1,)


def reserved_over_allocated(run: Play) -> float:
    """Peak reserved over peak allocated bytes, each the most of all plays."""
    reserved, allocated = _peaks(run)
    return reserved / allocated


def needed_over_allocated(run: Play) -> float:
    """The least room in which the run does not fail over peak allocated bytes: before it fails, the
    allocator gives back whatever segments are free."""
    most, allocated = _peaks(run._replace(capacity=0))
    least = allocated
    while most - least > _EXACT * allocated:
        room = (least + most) // 2
        fits = _peaks(run._replace(capacity=room))[0] <= room
        least, most = (least, room) if fits else (room, most)
    return most / allocated


def _peaks(run: Play) -> tuple[int, int]:
    """Bytes reserved and allocated."""
    reserved = allocated = 1
    for window in run.windows:
        allocator = CachingAllocator(run.capacity)
        allocator.allocate("fixed", run.fixed)
        player = _Player(allocator, run, window)
        for scale in run.scales:
            player.step(scale)
        reserved = max(reserved, allocator.peak_reserved)
        allocated = max(allocated, allocator.peak_allocated)
    return reserved, allocated


class _Player:
    """Plays steps; what lives from step to step (states) stays with the allocator."""

    def __init__(self, allocator: CachingAllocator, run: Play, window: int) -> None:
        self.allocator = allocator
        self.run = run
        self.window = window
        self.layers = min(run.depth, _PLAYED if len(run.scales) < 4 else _PLAYED_OFTEN)
        even, rest = divmod(run.depth, self.layers)
        self.times = [even + (index < rest) for index in range(self.layers)]
        self.saved = _kept_sizes(run.layer.saving)
        weights = sum(number < -10 for number, _ in run.layer.backward)
        each = 1 + weights + (0 if run.checkpointed else len(self.saved))
        self.lump = max(-(-run.depth * each * len(run.scales) // _MOST), 1)
        self.states: set[object] = set()
        # Gradients that stay: how many equal ones, and the weight gradient's bytes of one.
        self.weights: dict[object, tuple[int, int]] = {}
        # What the last step and this one have not given back: what a loop's names still hold.
        self.former: set[object] = set()
        self.kept: set[object] = set()
        self.steps = 0

    def _lumps(self, times: int) -> list[int]:
        """So many equal tensors, as counts of those that are allocated as one."""
        whole, rest = divmod(times, self.lump)
        return [self.lump] * whole + ([rest] if rest else [])

    def step(self, scale: float) -> None:
        run, allocator = self.run, self.allocator
        allocator.allocate(("x", 0), int(run.input * scale))
        for index in range(self.layers):
            self._forward(index, scale)
        self._events(run.head.saving, self.layers, scale)
        # The names hold the new output from here on.
        for key in self.former:
            allocator.release(key)
        allocator.allocate(("g", self.layers + 1), 512)
        self._events(run.head.backward, self.layers, scale)
        allocator.release(("x", self.layers))
        allocator.release(("x", self.layers + 1))
        for index in reversed(range(self.layers)):
            self._backward(index, scale)
        if run.embedding and run.tied:
            # Its gradient is added to the head's.
            for name in ("embedding", "sum"):
                allocator.allocate(name, int(run.embedding * run.gradients))
            for name in ("embedding", "sum"):
                allocator.release(name)
        elif run.embedding:
            self._weight(("embedding",), run.embedding, 1)
        allocator.release(("g", 0))
        for index in range(self.layers):
            for copy in range(self.times[index]):
                allocator.release(("leak", index, copy))
        self.former, self.kept = self.kept, set()
        self.steps += 1
        if self.steps % self.window == 0:
            self._optimize()

    def _forward(self, index: int, scale: float) -> None:
        run, allocator = self.run, self.allocator
        if run.gathered:
            allocator.allocate(("gathered", index), run.gathered)
            allocator.release(("gathered", index - 1))
        extra = self.times[index] - 1
        if run.checkpointed:
            if not run.offloaded:
                for copy, count in enumerate(self._lumps(extra)):
                    allocator.allocate(("x", index, copy), count * int(run.input * scale))
            self._events(run.layer.plain, index, scale)
            if run.offloaded:
                allocator.release(("x", index))
            return
        self._events(run.layer.saving, index, scale)
        if not run.input_kept:
            allocator.release(("x", index))
        for copy, count in enumerate(self._lumps(extra)):
            for position, size in enumerate(self.saved):
                allocator.allocate(("saved", index, copy, position), count * int(size * scale))
            if run.input_kept:
                allocator.allocate(("x", index, copy), count * int(run.input * scale))

    def _backward(self, index: int, scale: float) -> None:
        run, allocator = self.run, self.allocator
        if run.gathered:
            allocator.allocate(("again", index), run.gathered)
            allocator.release(("again", index + 1))
            allocator.release(("gathered", index))
        if run.checkpointed:
            if run.offloaded:
                allocator.allocate(("x", index), int(run.input * scale))
            self._events(run.layer.saving, index, scale)
            allocator.release(("x", index + 1))
        self._events(run.layer.backward, index, scale)
        for copy, count in enumerate(self._lumps(self.times[index] - 1)):
            if not run.leak:
                allocator.release(("x", index, copy))
            else:
                allocator.allocate(("leak", index, copy), count * int(run.input * scale))
            if not run.checkpointed:
                for position in range(len(self.saved)):
                    allocator.release(("saved", index, copy, position))
        allocator.release(("x", index))
        allocator.release(("g", index + 1))
        if run.gathered and index == 0:
            allocator.release(("again", 0))
        for copy in range(self.times[index] - 1 if run.leak else 0):
            allocator.release(("x", index, copy))

    def _optimize(self) -> None:
        run, allocator = self.run, self.allocator
        for key, (count, size) in self.weights.items():
            if run.states and key not in self.states:
                self.states.add(key)
                for name in ("state", "state 2"):
                    allocator.allocate((name, key), int(count * size * run.states / 2))
        for key, (count, size) in self.weights.items():
            if run.temporaries:
                allocator.allocate(("temporary", key), int(count * size * run.temporaries))
            elif run.single:
                allocator.allocate(("single", key), min(int(size * run.single), run.single_most))
                allocator.release(("single", key))
        for key in self.weights:
            allocator.release(("temporary", key))
        for key in self.weights:
            allocator.release(key)
        self.weights = {}

    def _weight(self, key: tuple[object, ...], size: int, times: int) -> None:
        for copy, count in enumerate(self._lumps(times)):
            name = (*key, copy)
            bytes_ = count * int(size * self.run.gradients)
            if name in self.weights:
                # A further micro-batch: the new gradient is added to the one that is there.
                self.allocator.allocate(("added", name), bytes_)
                self.allocator.release(("added", name))
                continue
            self.allocator.allocate(name, bytes_)
            self.weights[name] = count, size

    def _events(self, events: Sequence[tuple[int, int]], index: int, scale: float) -> None:
        allocator = self.allocator
        times = self.times[index] if index < self.layers else 1
        named: dict[int, tuple[object, int]] = {0: ("x", index), 1: ("x", index + 1)}
        named |= {-1: ("g", index), -2: ("g", index + 1)}
        for number, size in events:
            if number < -10:
                self._weight(("w", index, number), size, times)
                continue
            key = named.get(number, (self.steps, index, number))
            if not size:
                allocator.release(key)
                self.kept.discard(key)
            elif size > _SMALL:
                allocator.allocate(key, int(size * scale))
                if number not in named:
                    self.kept.add(key)


def _kept_sizes(events: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Sizes of what a pass allocates and does not release, its output left out."""
    live: dict[int, int] = {}
    for number, size in events:
        if size:
            live[number] = size
        else:
            live.pop(number, None)
    live.pop(1, None)
    return tuple(size for size in live.values() if size > _SMALL)
