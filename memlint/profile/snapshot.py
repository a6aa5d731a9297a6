"""A snapshot of torch's allocator: ``torch.cuda.memory._dump_snapshot``, read without torch.

``segments``: what is reserved at the end, each with ``device``, ``total_size`` and ``blocks``. A
block has ``state``, ``size``, which is rounded up, ``requested_size``, which is not, and
``frames``: none if it is older than the recording; torch 2.0 has them in ``history``. A list of
segments alone, as ``torch.cuda.memory_snapshot`` returns it, is read too.

``device_traces``: for each GPU the last ``max_entries`` events, oldest first: ``action``, ``addr``
(of ``oom``: ``device_free``), ``size`` as requested, ``time_us`` (microseconds since 1970; not in
older releases) and ``frames``, innermost first: of C++ before those of Python and between them,
unless ``stacks="python"``, where the thread of autograd has none; ``context`` may leave them out. A
free is requested, then completed; ``skip_actions`` may leave out either. ``allocator_settings``
stand beside. Source: ``torch/cuda/memory.py``, ``c10/core/CachingDeviceAllocator.h``.

Events stand in arrays of numbers, some forty bytes an event; stacks are kept once each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

from memlint.profile.plain_pickle import AS_WRITTEN, PickleError, PlainPickle
from memlint.profile.stacks import DATA, Stack, read_stacks
from memlint.source.bounded import mapped

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "oom", "snapshot")  # fmt: skip
_CODES = {action: code for code, action in enumerate(ACTIONS)}
_LONGEST_STACK = 2_000  # frames, the innermost first: those of C++ are ten times as many


class Trace:
    """The events of one GPU, oldest first: each column has one number for each event. At the end,
    reserved: bytes; blocks: what is allocated, address, bytes and number of the stack."""

    def __init__(self) -> None:
        self.actions, self.stacks = bytearray(), array("L")
        self.addresses, self.sizes, self.times = array("Q"), array("Q"), array("Q")
        self.blocks: list[tuple[int, int, int]] = []
        self.reserved = 0


class Snapshot:
    """What a file holds. traces: by GPU. stacks: what each says; the first has no frames.
    expandable: the allocator's segments grow."""

    def __init__(self) -> None:
        self.traces: dict[int, Trace] = {}
        self.stacks: list[Stack] = []
        self.expandable = False
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._frames: list[list[Any]] = [[]]
        self._by_list: dict[int, tuple[Any, Trace]] = {}

    def number_of(self, frames: Any) -> int:
        """Return the number of a stack, by its frames or by a number that took their place."""
        if type(frames) is not list:
            return frames if type(frames) is int and 0 <= frames < len(self._frames) else 0
        frames = frames[:_LONGEST_STACK]
        number = self._numbers.setdefault(tuple(map(id, frames)), len(self._frames))
        if number == len(self._frames):
            self._frames.append(frames)  # held, so that no other frame gets its place in memory
        return number

    def take(self, values: list[Any], target: Any) -> tuple[list[Any], Mapping[int, Any]]:
        """Take a batch of events, which is to be appended to a GPU's list; keep anything else."""
        if not values or type(values[0]) is not dict or "action" not in values[0]:
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

    def _trace(self, device: int, events: Any) -> Trace:
        if type(events) is not list or events:  # what was an event was taken
            told = f"`device_traces` of GPU {device} is damaged: expected a list of events"
            raise PickleError(f"{told}, dictionaries with `action`, {AS_WRITTEN}")
        return self._by_list.get(id(events), (None, Trace()))[1]

    def finish(self, whole: Any) -> None:
        """Take what stands beside the events: the memory of each GPU as it is at the end."""
        whole = {"segments": whole} if isinstance(whole, list) else whole
        if not isinstance(whole, dict) or "segments" not in whole:
            raise PickleError(f"it has no `segments`; expected a snapshot {AS_WRITTEN}")
        for device, events in enumerate(whole.get("device_traces") or ()):
            self.traces[device] = self._trace(device, events)
        for segment in whole["segments"]:
            trace = self.traces.setdefault(int(segment["device"]), Trace())
            trace.reserved += int(segment["total_size"])
            address = segment.get("address", 0)
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    past = (block.get("history") or [{}])[0].get("frames")
                    size = int(block.get("requested_size") or block["size"])
                    stack = self.number_of(block.get("frames") or past or 0)
                    trace.blocks.append((block.get("address") or address, size, stack))
                address += block["size"]
        self.expandable = bool((whole.get("allocator_settings") or {}).get("expandable_segments"))
        self.stacks = read_stacks(self._frames)


def read_snapshot(path: str, progress: Callable[[int, int], None]) -> Snapshot:
    """Read the file. progress: is told how many bytes of how many are read, now and then.

    Raises PickleError where it is no snapshot, OSError where it cannot be read.
    """
    snapshot = Snapshot()
    with mapped(path) as data:

        def take(values: list[Any], target: Any) -> tuple[list[Any], Mapping[int, Any]]:
            progress(data.tell(), len(data))
            return snapshot.take(values, target)

        for sign, words in DATA["other files"].items():
            if data[:2].startswith(sign.encode("latin-1")):
                raise PickleError(words)
        whole = PlainPickle(data, take).read_all()
        try:
            snapshot.finish(whole)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            lacks = f"lacks `{error.args[0]}`" if isinstance(error, KeyError) else "is of no use"
            told = f"what it says of segments and stacks {lacks}; expected `segments`, each with"
            raise PickleError(f"{told} `device`, `total_size`, `blocks`, {AS_WRITTEN}") from None
    return snapshot
