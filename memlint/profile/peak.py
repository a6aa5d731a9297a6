"""What was alive at the peak of a snapshot, by kind and by the place that allocated it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from memlint.memory.oom_log import read_frames
from memlint.profile.snapshot import ACTIONS, Block, Snapshot, Trace
from memlint.source.record import NamedTuple, Record

_ALLOC, _FREE = ACTIONS.index("alloc"), ACTIONS.index("free_requested")
_OOM = ACTIONS.index("oom")
_RESERVES = {ACTIONS.index(name) for name in ("segment_alloc", "segment_map")}
_RETURNS = {ACTIONS.index(name) for name in ("segment_free", "segment_unmap")}
_BACKWARD = re.compile(r"_engine_run_backward|in backward\b")
_OF_TORCH = re.compile(r'File "[^"]*[/\\]torch[/\\]')
_PLACE = re.compile(r'File "([^"]*)", line (\d+), in (.*)')
EARLIER = "allocated before the recording"


class Moment(Record):
    """The peak of a GPU. index: of its event, -1 before the first; time: microseconds since the
    first. allocated, reserved: bytes. refused: what torch could not allocate, 0 if nothing."""

    index: int
    time: int
    allocated: int
    reserved: int
    refused: int


class Group(NamedTuple):
    """Memory of one kind and place that was alive at the peak. bytes: of all its tensors."""

    kind: str
    place: str
    bytes: int
    tensors: int


class DevicePeak(NamedTuple):
    """What a snapshot says of one GPU. groups: the largest first."""

    device: int
    events: int
    moment: Moment
    groups: tuple[Group, ...]

    @property
    def by_kind(self) -> dict[str, int]:
        sizes: Counter[str] = Counter()
        for group in self.groups:
            sizes[group.kind] += group.bytes
        return dict(sizes.most_common())

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "events": self.events,
            "peak": {name: getattr(self.moment, name) for name in Moment._fields},
            "by_kind": self.by_kind,
            "groups": [group._asdict() for group in self.groups],
        }


def peaks(snapshot: Snapshot) -> list[DevicePeak]:
    """Return the peak of each GPU that holds anything, or did."""
    found = []
    for device in range(max(len(snapshot.traces), *(at + 1 for at in snapshot.reserved), 0)):
        trace = snapshot.traces[device] if device < len(snapshot.traces) else Trace()
        blocks = snapshot.blocks.get(device, [])
        if not len(trace) and not blocks:
            continue
        moment = _peak(trace, sum(block.size for block in blocks), snapshot.reserved.get(device, 0))
        alive = _Alive(snapshot, trace, blocks, moment)
        found.append(DevicePeak(device, len(trace), moment, tuple(alive.groups())))
    return found


def _peak(trace: Trace, allocated: int, reserved: int) -> Moment:
    """Return the fullest moment. allocated, reserved: bytes at the end, after the last event."""
    held = most = cached = cached_then = refused = 0
    where = -1
    for index, (action, size) in enumerate(zip(trace.actions, trace.sizes, strict=True)):
        if action == _ALLOC:
            held += size
            if held > most:
                most, where, cached_then = held, index, cached
        elif action == _FREE:
            held -= size
        elif action in _RESERVES:
            cached += size
        elif action in _RETURNS:
            cached -= size
        elif action == _OOM:
            refused = max(refused, size)
    time = trace.times[where] - trace.times[0] if where >= 0 else 0
    # What stood there before the first event is what the events do not explain of the end.
    before, cached_before = max(allocated - held, 0), max(reserved - cached, 0)
    return Moment(where, max(time, 0), before + most, cached_before + cached_then, refused)


class _Alive:
    """The tensors that were alive at a moment, and when each was freed."""

    def __init__(
        self, snapshot: Snapshot, trace: Trace, blocks: Iterable[Block], moment: Moment
    ) -> None:
        self.snapshot = snapshot
        self.trace = trace
        self.blocks = blocks
        self.moment = moment
        self._kinds: dict[int, tuple[str, bool]] = {}
        # By address: the event that allocated what was held at the peak, the stack that freed it,
        # and the events that allocated what they hold at last.
        self._at_peak: dict[int, int] = {}
        self._freed: dict[int, int] = {}
        self._recorded: dict[int, int] = {}
        self._replay()

    def _replay(self) -> None:
        trace, held = self.trace, self._recorded
        for index, (action, address) in enumerate(zip(trace.actions, trace.addresses, strict=True)):
            if action == _ALLOC:
                held[address] = index
            elif action == _FREE:
                held.pop(address, None)
                if address in self._at_peak:
                    self._freed.setdefault(address, trace.stacks[index])
            if index == self.moment.index:
                self._at_peak = dict(held)

    def groups(self) -> Iterator[Group]:
        """Yield memory by kind and place, the largest first."""
        sizes: Counter[tuple[str, str]] = Counter()
        counts: Counter[tuple[str, str]] = Counter()
        for kind, stack, size in self._tensors():
            sizes[kind, self._place(stack)] += size
            counts[kind, self._place(stack)] += 1
        for (kind, place), size in sizes.most_common():
            yield Group(kind, place, size, counts[kind, place])

    def _tensors(self) -> Iterator[tuple[str, int, int]]:
        """Yield kind, stack and bytes of each tensor; what is older than the events as one."""
        trace, sizes = self.trace, 0
        for address, index in self._at_peak.items():
            size, stack = trace.sizes[index], trace.stacks[index]
            sizes += size
            yield self._kind(stack, self._freed.get(address)), stack, size
        for block in self.blocks:
            if block.address not in self._recorded:
                sizes += block.size
                kind = self._kind(block.stack, None) if block.stack else EARLIER
                yield kind, block.stack, block.size
        if sizes < self.moment.allocated:
            yield EARLIER, 0, self.moment.allocated - sizes

    def _kind(self, stack: int, freed: int | None) -> str:
        """Return the kind of tensor, by its frames and, in backward, by how long it lives."""
        kind, in_backward = self._by_stack(stack)
        if not in_backward:
            return kind
        lives_on = freed is None or not self._by_stack(freed)[1]
        return "weight_gradient" if lives_on else "activation_gradient"

    def _by_stack(self, stack: int) -> tuple[str, bool]:
        """Return the kind of a stack's tensors; True if autograd's engine allocated them."""
        if stack not in self._kinds:
            frames = self.snapshot.stacks[stack]
            evidence = read_frames(frames[::-1])
            kind = max(evidence.kinds, key=lambda each: evidence.kinds[each], default="other")
            if evidence.phase == "load":
                kind = "weights"  # whatever the functions that load them are called
            elif not evidence.kinds:
                kind = _BY_PHASE.get(evidence.phase, kind)
            is_engine = bool(frames) and _BACKWARD.search(frames[0]) is not None
            self._kinds[stack] = kind, is_engine
        return self._kinds[stack]

    def _place(self, stack: int) -> str:
        """Return the innermost frame outside of torch, or the innermost."""
        frames = self.snapshot.stacks[stack]
        if not frames:
            return ""
        frame = next((each for each in frames if not _OF_TORCH.match(each)), frames[0])
        shown = _PLACE.match(frame)
        if shown is None:
            return frame
        path = "/".join(shown[1].replace("\\", "/").split("/")[-3:])
        return f"{path}:{shown[2]} in {shown[3]}"


_BY_PHASE = {"forward": "activation", "optimizer step": "optimizer_state"}
