"""A snapshot of torch's allocator: ``torch.cuda.memory._dump_snapshot``, read without torch.

Events of each GPU stand in arrays of numbers, some thirty bytes an event; stacks of frames are
kept once each. Source: ``torch/cuda/_memory_viz.py`` and ``torch/csrc/cuda/Module.cpp``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint.profile.plain_pickle import PickleError, PlainPickle
from memlint.source.bounded import mapped
from memlint.source.record import Record

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "oom", "snapshot")  # fmt: skip
_CODES = {action: code for code, action in enumerate(ACTIONS)}
_LONGEST_STACK = 200  # frames, the innermost first


class Block(Record):
    """Memory that is allocated when the snapshot is taken. stack: number of its frames."""

    address: int
    size: int
    stack: int


class Trace:
    """The events of one GPU, oldest first: each column has one number for each event."""

    def __init__(self) -> None:
        self.actions = bytearray()
        self.addresses, self.sizes, self.times = array("Q"), array("Q"), array("Q")
        self.stacks = array("L")

    def __len__(self) -> int:
        return len(self.actions)


class Snapshot:
    """What a file holds. stacks: frames of each number, innermost first; the first is empty."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.blocks: dict[int, list[Block]] = {}
        self.reserved: dict[int, int] = {}
        self.stacks: list[tuple[str, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._texts: dict[int, tuple[Any, str]] = {}
        self._by_list: dict[int, tuple[Any, Trace]] = {}

    def number_of(self, frames: Any) -> int:
        """Return the number of a stack, by its frames or by a number that took their place."""
        if type(frames) is not list:
            return frames if type(frames) is int and 0 <= frames < len(self.stacks) else 0
        key = tuple(map(id, frames[:_LONGEST_STACK]))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.stacks)
            self.stacks.append(tuple(self._text(frame) for frame in frames[:_LONGEST_STACK]))
        return number

    def _text(self, frame: Any) -> str:
        # The frame is held, so that no other gets its place in memory.
        held = self._texts.get(id(frame))
        if held is None:
            held = self._texts[id(frame)] = frame, _shown(frame)
        return held[1]

    def take(self, values: list[Any], target: Any) -> tuple[list[Any], Mapping[int, Any]]:
        """Take a batch of events, which is to be appended to a GPU's list; keep anything else."""
        first = values[0] if values else None
        if not isinstance(first, dict) or "action" not in first:
            return values, {}
        _, trace = self._by_list.setdefault(id(target), (target, Trace()))
        replaced: dict[int, Any] = {}
        for event in values:
            frames = event.get("frames", 0)
            number = self.number_of(frames)
            replaced[id(event)] = None
            if type(frames) is list and frames:
                replaced[id(frames)] = number
            code = _CODES.get(event["action"])
            if code is not None:  # a newer torch tells more
                trace.actions.append(code)
                trace.addresses.append(event.get("addr") or 0)
                trace.sizes.append(event.get("size") or 0)
                trace.times.append(event.get("time_us") or 0)
                trace.stacks.append(number)
        return [], replaced

    def finish(self, whole: Any) -> None:
        """Take what stands beside the events: the memory of each GPU as it is at the end."""
        if not isinstance(whole, dict) or "segments" not in whole:
            raise PickleError("it is no snapshot: torch.cuda.memory._dump_snapshot writes one")
        for events in whole.get("device_traces") or ():
            self.traces.append(self._by_list.get(id(events), (None, Trace()))[1])
        for segment in whole["segments"]:
            device = segment["device"]
            self.reserved[device] = self.reserved.get(device, 0) + segment["total_size"]
            self.blocks.setdefault(device, []).extend(self._blocks(segment))

    def _blocks(self, segment: Mapping[str, Any]) -> Iterator[Block]:
        address = segment.get("address") or 0
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                at = block.get("address") or address
                yield Block(at, block["size"], self.number_of(block.get("frames") or 0))
            address += block["size"]


def read_snapshot(path: str, progress: Callable[[int, int], None]) -> Snapshot:
    """Read the file. progress: is told how many bytes of how many are read, now and then.

    Raises PickleError where it is no snapshot, OSError where it cannot be read.
    """
    snapshot = Snapshot()
    with mapped(path) as data:
        size = len(data)

        def take(values: list[Any], target: Any) -> tuple[list[Any], Mapping[int, Any]]:
            progress(data.tell(), size)
            return snapshot.take(values, target)

        whole = PlainPickle(data, take).read_all()
        try:
            snapshot.finish(whole)
        except (KeyError, TypeError, AttributeError) as error:
            raise PickleError(f"it is no snapshot of torch: {error!r}") from None
    return snapshot


def _shown(frame: Any) -> str:
    """Return a frame as a traceback shows it."""
    if not isinstance(frame, dict):
        return ""
    name, line, function = (frame.get(key, "") for key in ("filename", "line", "name"))
    return f'File "{name}", line {line}, in {function}'
