"""What was alive at the peak of a snapshot, by kind and by the place that allocated it.

A kind is told by what happened, not by names alone: a gradient that backward frees again is that
of an activation; what an optimizer's step leaves behind is state; what autograd frees was kept for
it; scores of attention are as large as what a softmax returns.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from memlint.profile.snapshot import ACTIONS, Snapshot, Trace
from memlint.profile.stacks import DATA, Stack
from memlint.source.record import NamedTuple, Record

_ALLOC, _REQUESTED, _COMPLETED, _RESERVE, _RETURN, _MAP, _UNMAP, _OOM, _ = range(len(ACTIONS))
_SIGNS = {_RESERVE: 1, _MAP: 1, _RETURN: -1, _UNMAP: -1}
_TELLING = ("softmax", "log-softmax", "product")  # operators by whose sizes others are known
EARLIER = "allocated before the recording"


class Group(NamedTuple):
    """Memory of one kind, place and operator that was alive at the peak. bytes: of all tensors."""

    kind: str
    place: str
    operator: str
    bytes: int
    tensors: int


class DevicePeak(Record):
    """The peak of a GPU. index: of its event, -1 before the first; time: microseconds since the
    first, if known. allocated, reserved: bytes. refused: what torch could not allocate, or 0;
    unused: what was reserved in no tensor then. history: "whole", "late" (memory is older than the
    recording), "cut" (events are missing), "none". run: "Trainer", "training loop", "backward",
    "forward alone", "". expandable: the allocator's segments grow. groups: the largest first."""

    device: int
    events: int
    index: int
    time: int | None
    allocated: int
    reserved: int
    refused: int
    unused: int
    history: str
    run: str
    expandable: bool
    groups: tuple[Group, ...]

    @property
    def by_kind(self) -> dict[str, int]:
        sizes: Counter[str] = Counter()
        for group in self.groups:
            sizes[group.kind] += group.bytes
        return dict(sizes.most_common())

    def to_json(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self._fields}
        groups = [group._asdict() for group in self.groups]
        peak = {name: told.pop(name) for name in self._fields[2:8]}
        return told | {"peak": peak, "by_kind": self.by_kind, "groups": groups}


def peaks(snapshot: Snapshot) -> list[DevicePeak]:
    """Return the peak of each GPU that holds anything, or did."""
    found = [_Replay(snapshot, trace).told(at) for at, trace in sorted(snapshot.traces.items())]
    return [peak for peak in found if peak.allocated or peak.refused]


class _Replay:
    """The events of a GPU, replayed."""

    def __init__(self, snapshot: Snapshot, trace: Trace) -> None:
        self.snapshot, self.trace, self.stacks = snapshot, trace, snapshot.stacks
        # For each event that allocates, the event that frees, or 0; by address, what stays.
        self.ends = array("Q", bytes(8 * len(self.trace.actions)))
        self.stays: dict[int, int] = {}
        # Events that begin a phase, and the phases; sizes of what telling operators return.
        self.begins: list[int] = []
        self.phases: list[str] = []
        self.sizes: dict[str, set[int]] = {mark: set() for mark in _TELLING}
        self.moment = self.index, _, self.allocated, *_ = self._peak()
        self.old = [block for block in trace.blocks if block[0] not in self.stays]

    def _peak(self) -> tuple[int, int | None, int, int, int, int]:
        """Replay all; return the fullest moment."""
        held = most = cached = cached_then = refused = unused = 0
        trace, where = self.trace, -1
        # What is completed counts where requests were left out; one event may be the rest of two.
        free = _REQUESTED if len(self.ends) < 2 or _REQUESTED in trace.actions else _COMPLETED
        events = zip(trace.actions, trace.addresses, trace.sizes, strict=True)
        for index, (action, address, size) in enumerate(events):
            if action == _ALLOC:
                held += size
                self.stays[address] = index
                stack = self.stacks[trace.stacks[index]]
                for mark in stack.marks.intersection(_TELLING):
                    self.sizes[mark].add(size)
                if self.phases[-1:] != [stack.phase]:
                    self.begins.append(index)
                    self.phases.append(stack.phase)
                if held > most:
                    most, where, cached_then = held, index, cached
            elif action == free:
                held -= size
                if address in self.stays:
                    self.ends[self.stays.pop(address)] = index
            elif action == _OOM and size > refused:
                refused, unused = size, cached - held
            else:
                cached += _SIGNS.get(action, 0) * size
        # What stood there before the first event is what the events do not explain of the end.
        self.before = before = max(sum(size for _, size, _ in trace.blocks) - held, 0)
        cached_before = max(trace.reserved - cached, 0)
        unused = max(cached_before - before + unused, 0) * (refused > 0)
        time = trace.times[where] - trace.times[0] if where >= 0 and trace.times[0] else None
        return where, time, before + most, cached_before + cached_then, refused, unused

    def told(self, device: int) -> DevicePeak:
        """Return the peak, with what is known of the history and of the run."""
        stacks = {stack for _, _, stack in self.old if stack}
        seen = {self.stacks[stack].phase for stack in stacks}
        seen.update(self.phases, *(stack.marks for stack in self.stacks))
        run = next((name for name, sign in DATA["runs"] if sign in seen), "")
        history = "cut" if stacks else "late" if self.before else "whole"
        history = history if self.phases else "none"
        alive: dict[tuple[str, str, str], list[int]] = {}
        for kind, stack, size in self._tensors():
            alive.setdefault((kind, stack.place, stack.operator), []).append(size)
        groups = [Group(*key, sum(sizes), len(sizes)) for key, sizes in alive.items()]
        largest = tuple(sorted(groups, key=lambda group: -group.bytes))
        known = *self.moment, history, run, self.snapshot.expandable
        return DevicePeak(device, len(self.ends), *known, largest)

    def _tensors(self) -> Iterator[tuple[str, Stack, int]]:
        """Yield kind, stack and bytes of each tensor; what is older than the events as one."""
        trace, rest = self.trace, self.allocated
        for index in range(self.index + 1):
            end = self.ends[index] or self.index + 1
            if trace.actions[index] == _ALLOC and end > self.index:
                size, stack = trace.sizes[index], self.stacks[trace.stacks[index]]
                rest -= size
                yield self._kind(stack, size, index), stack, size
        for _, size, number in self.old:
            rest -= size
            stack = self.stacks[number]
            yield self._kind(stack, size, -1) if number else EARLIER, stack, size
        if rest > 0:
            yield EARLIER, Stack(), rest

    def _kind(self, stack: Stack, size: int, index: int) -> str:
        """Return the kind of tensor. index: of the event that allocated it, or -1."""
        freed, events = self.ends[index] if index >= 0 else 0, len(self.ends)
        at = bisect(self.begins, index)
        until = self.begins[at] if at < len(self.begins) else events + 1
        softmax, loss, products = self.sizes.values()
        multiplied = size in products and not stack.marks.isdisjoint(("softmax", "product"))
        whole = 2 * size if stack.operator == "_to_copy" else size
        scores = "attention" in stack.marks and (size in softmax or whole in softmax)
        facts = {
            "passes": until > freed > 0,
            "unfinished": not freed and until > events and _OOM in self.trace.actions,
            "freed by autograd": freed > 0 and self._by_engine(freed),
            "scores": scores or (multiplied and size in softmax),
            "logits": size in loss and stack.operator.endswith("mm"),
        }
        return stack.kind(stack.marks.union(name for name, is_so in facts.items() if is_so))

    def _by_engine(self, freed: int) -> bool:
        """True if autograd's engine freed it: the stack tells, or else the phase."""
        stack = self.stacks[self.trace.stacks[freed]]
        if not self.trace.stacks[freed]:
            return self.phases[bisect(self.begins, freed) - 1] == "backward"
        return stack.phase == "backward" or ("engine" in stack.marks and stack.phase == "forward")
