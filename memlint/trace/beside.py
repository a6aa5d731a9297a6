"""What a run that is counted keeps alive beside what reading estimates, and why they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memlint.memory.lifetimes import Tensor, format_size
from memlint.memory.timeline import Phase
from memlint.memory.trainer_kinds import kind_of
from memlint.profile.peak import DevicePeak
from memlint.profile.shown import SAME, advice
from memlint.profile.stacks import DATA
from memlint.reports.memory import largest, table
from memlint.source.record import NamedTuple
from memlint.trace.tracing import NO_LINE, Traced, trace

if TYPE_CHECKING:
    from memlint.memory import Estimate

_LEAST = 0.01  # of the peak: less is no difference worth a word
_AS_COUNTED: Mapping[str, str] = DATA["counted"]
# Something helps against these, which a snapshot calls otherwise.
_HELPED = {name: kind for kind, name in reversed(SAME.items())}
# Where the loss begins cannot be seen; a loss's backward belongs to its forward there.
_SPANS = (("forward and loss", "forward", "loss", "backward"), ("load",), ("optimizer step",))


class Beside(NamedTuple):
    """A run that was counted, the estimate read from the same script (None: why there is none)."""

    traced: Traced
    read: Estimate | None
    unread: str

    @property
    def fits(self) -> bool | None:
        """True if what was counted fits the GPU; None where no GPU was named."""
        if self.read is None or self.read.gpu is None or not self.traced.phases:
            return None
        return self.traced.peak.total <= self.read.gpu.room

    def to_json(self) -> dict[str, Any]:
        return {
            **self.traced.to_json(),
            "fits": self.fits,
            "read": None if self.read is None else self.read.to_json(),
            "unread": self.unread,
            "differences": [each._asdict() for each in differences(self)],
        }


class Difference(NamedTuple):
    """A kind of which reading and counting tell different bytes at their peaks."""

    kind: str
    read: int
    counted: int
    cause: str


def counted_beside(
    script: str,
    arguments: tuple[str, ...],
    read: Callable[[], Estimate],
    *,
    fakes: bool,
    seconds: float,
    as_json: bool,
) -> tuple[int, str]:
    """Run and read a script; return the exit status and what is said of it.

    fakes: it is traced under fake tensors; else it runs with real ones.
    """
    estimate, unread = None, ""
    try:
        estimate = read()
    except Exception as error:  # whatever keeps it from being read, it can be run
        unread = str(getattr(error, "message", error))
    settings = None if estimate is None else estimate.settings
    length = None if settings is None else settings.seq_len
    rows = 64 if settings is None else max(64, 8 * (settings.micro_batch or 1))
    # Who generates is given prompts alone; of pairs, a row holds them.
    prompt = settings.prompt_len if settings and kind_of(settings.trainer).generates else None
    given = {"length": length, "prompt": prompt, "rows": rows}
    traced = trace(script, arguments, **given, seconds=seconds, fakes=fakes)
    both = Beside(traced, estimate, unread)
    failed = bool(traced.error) or both.fits is False
    if as_json:
        return int(failed), json.dumps(both.to_json(), indent=2)
    if traced.error:
        return 1, f"{script} cannot be {'traced' if fakes else 'profiled'}: {traced.error}"
    return int(failed), "\n".join(_lines(script, both))


def differences(both: Beside) -> list[Difference]:
    """Return the kinds that differ at the peaks by more than a hundredth of the counted peak."""
    if both.read is None or not both.traced.phases or both.traced.error:
        return []
    peak = both.traced.peak
    read: Counter[str] = Counter()
    for name, size in both.read.peak.bytes_by_kind.items():
        read[_AS_COUNTED.get(name, name)] += size
    counted = Counter(peak.bytes_by_kind)
    found = [
        Difference(kind, read[kind], counted[kind], _cause(kind, read[kind], counted[kind], both))
        for kind in sorted({*read, *counted})
        if abs(read[kind] - counted[kind]) > _LEAST * peak.total
    ]
    return sorted(found, key=lambda each: -abs(each.read - each.counted))


def _cause(kind: str, read: int, counted: int, both: Beside) -> str:
    """Return where the larger of two counts comes from."""
    assert both.read is not None
    peak, peak_read = both.traced.peak, both.read.peak
    if kind == "libraries":
        return "workspaces of CUDA's libraries, which no tensor holds"
    if not any(peak.name in names and peak_read.name in names for names in _SPANS):
        return f"reading has its peak in {peak_read.name}, the run in {peak.name}"
    lines = [each for each in peak.tensors if each.kind == kind and each.name not in ("", NO_LINE)]
    if counted > read and lines:
        top = max(lines, key=lambda each: each.bytes)
        return f"{top.name} makes {format_size(top.bytes)} of them, alive in {peak.name}"
    tensors = [each for each in peak_read.tensors if _AS_COUNTED.get(each.kind, each.kind) == kind]
    if tensors and read > counted:
        top = max(tensors, key=lambda each: each.bytes)
        return f"reading counts {top.name} ({format_size(top.bytes)}) in {peak_read.name}"
    return f"alive in {peak.name}, made in no line of the script"


def _lines(script: str, both: Beside) -> Iterator[str]:
    traced, peak = both.traced, both.traced.peak
    yield f"{script}: {traced.steps} steps {traced.how}"
    yield f"peak: {peak.name}, {format_size(peak.total)} allocated"
    if traced.reserved:
        given, held = format_size(traced.allocated), format_size(traced.reserved)
        yield f"torch's allocator gave out {given} at the most, and had {held} reserved"
    yield ""
    yield from table(traced.phases, peak)
    yield ""
    yield "largest at the peak:"
    yield from largest(peak)
    yield ""
    if both.read is None:
        yield f"not read: {both.unread}"
    else:
        yield from _compared(both, both.read)
    yield ""
    kinds = [_HELPED[kind] for kind in peak.bytes_by_kind if kind in _HELPED]
    yield from advice(kinds, None if both.read is None else both.read.settings)
    yield "assumed:"
    yield from (f"  {text}" for text in traced.assumed)


def recorded_beside(peaks: Iterable[DevicePeak], read: Estimate) -> Iterator[str]:
    """Yield what differs between a snapshot's fullest GPU and what is read of the same run."""
    peak = max(peaks, key=lambda each: each.allocated)
    tensors = (
        Tensor(each.place, each.bytes, SAME.get(each.kind, each.kind)) for each in peak.groups
    )
    traced = Traced("", phases=(Phase(read.peak.name, tuple(tensors)),))
    return _compared(Beside(traced, read, ""), read)


def _compared(both: Beside, read: Estimate) -> Iterator[str]:
    total, peak = read.peak.total, both.traced.peak
    release = read.settings.versions.get("transformers", "that is not known")
    yield f"read for transformers {release}: {format_size(total)} in {read.peak.name}"
    yield f"the run: {format_size(peak.total)}"
    for each in differences(both):
        sizes = f"{format_size(each.read)} read, {format_size(each.counted)} in the run"
        yield f"  {each.kind}: {sizes}: {each.cause}"
    if read.gpu is not None:
        said = "fits" if both.fits else "does not fit"
        room = format_size(read.gpu.room)
        yield f"{said} {read.gpu.name}: {format_size(peak.total)} of the {room} that torch gets"
