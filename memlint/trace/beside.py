"""What tracing counts beside what reading estimates, and why they differ."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from memlint.source.record import NamedTuple
from memlint.trace.tracing import Traced, trace

if TYPE_CHECKING:
    from memlint.memory import Estimate

_GIB = 2**30
_LEAST = 0.01  # of the peak: less is no difference worth a word
_KINDS = ("weights", "optimizer states", "gradients", "activations", "logits", "temporaries")
_AS_TRACED = {
    "reference model": "weights", "adapters": "weights", "master weights": "optimizer states",
    "weight copies": "activations", "gathered": "temporaries",
    "activation gradients": "temporaries",
    "kv cache": "activations", "batch": "activations", "workspace": "libraries",
    "communication": "libraries",
}  # fmt: skip
# A trace cannot tell apart where the loss begins, a loss's backward belongs to its forward there.
_SPANS = {
    "load": ("load",), "forward to backward": ("forward and loss", "forward", "loss", "backward"),
    "optimizer step": ("optimizer step",),
}  # fmt: skip


class Beside(NamedTuple):
    """A traced run, the estimate read from the same script (None: why there is none)."""

    traced: Traced
    read: Estimate | None
    unread: str

    @property
    def fits(self) -> bool | None:
        """True if what was counted fits the GPU; None where no GPU was named."""
        if self.read is None or self.read.gpu is None:
            return None
        return int(self.traced.peak["total"]) <= self.read.gpu.room

    def to_json(self) -> dict[str, Any]:
        return {
            "error": self.traced.error,
            "peak": dict(self.traced.peak) if self.traced.phases else None,
            "phases": list(self.traced.phases),
            "steps": self.traced.steps,
            "assumed": list(self.traced.assumed),
            "fits": self.fits if self.traced.phases else None,
            "read": None if self.read is None else self.read.to_json(),
            "unread": self.unread,
            "differences": [each._asdict() for each in differences(self)],
        }


class Difference(NamedTuple):
    """A kind of which reading and tracing count different bytes at their peaks."""

    kind: str
    read: int
    traced: int
    cause: str


def traced_beside(
    script: str,
    arguments: tuple[str, ...],
    read: Callable[[], Estimate],
    *,
    seconds: float,
    as_json: bool,
) -> tuple[int, str]:
    """Trace and read a script; return the exit status and what is said of it."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "memlint_runtime")):
        return 2, (
            "estimate --trace runs the script: use it in the environment that trains "
            "(pip install 'torch-memlint[runtime]'); torch is not installed in this one"
        )
    estimate, unread = None, ""
    try:
        estimate = read()
    except Exception as error:  # whatever keeps it from being read, it can be run
        unread = str(getattr(error, "message", error))
    settings = None if estimate is None else estimate.settings
    length = None if settings is None else settings.seq_len
    rows = 64 if settings is None else max(64, 8 * (settings.micro_batch or 1))
    traced = trace(script, arguments, length=length, rows=rows, seconds=seconds)
    both = Beside(traced, estimate, unread)
    failed = bool(traced.error) or both.fits is False
    if as_json:
        return int(failed), json.dumps(both.to_json(), indent=2)
    if traced.error:
        return 1, f"{script} cannot be traced: {traced.error}"
    return int(failed), "\n".join(_lines(script, both))


def differences(both: Beside) -> list[Difference]:
    """Return the kinds that differ at the peaks by more than a hundredth of the traced peak."""
    if both.read is None or not both.traced.phases or both.traced.error:
        return []
    peak = both.traced.peak
    read, traced = _read_kinds(both.read.peak.bytes_by_kind), peak["bytes_by_kind"]
    found = []
    for kind in (*_KINDS, "libraries"):
        one, other = read.get(kind, 0), traced.get(kind, 0)
        if abs(one - other) > _LEAST * peak["total"]:
            cause = _cause(kind, one, other, both)
            found.append(Difference(kind, one, other, cause))
    return sorted(found, key=lambda each: -abs(each.read - each.traced))


def _read_kinds(kinds: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, size in kinds.items():
        name = _AS_TRACED.get(kind, kind)
        found[name] = found.get(name, 0) + size
    return found


def _cause(kind: str, read: int, traced: int, both: Beside) -> str:
    """Return where the larger of two counts comes from."""
    assert both.read is not None
    peak = both.traced.peak
    if kind == "libraries":
        return "workspaces of CUDA's libraries, which no fake has"
    if both.read.peak.name not in _span_of(peak["name"]):
        return f"reading has its peak in {both.read.peak.name}, tracing in {peak['name']}"
    largest = [each for each in peak["largest"] if each["kind"] == kind and each["line"]]
    if traced > read and largest:
        top = largest[0]
        return f"line {top['line']} makes {_gib(top['bytes'])} of them, alive in {peak['name']}"
    tensors = [
        each for each in both.read.peak.tensors if _AS_TRACED.get(each.kind, each.kind) == kind
    ]
    if tensors and read > traced:
        top_read = max(tensors, key=lambda each: each.bytes)
        return f"reading counts {top_read.name} ({_gib(top_read.bytes)}) in {both.read.peak.name}"
    return f"alive in {peak['name']}, made in no line of the script"


def _span_of(phase: str) -> tuple[str, ...]:
    return next(names for names in _SPANS.values() if phase in names)


def _lines(script: str, both: Beside) -> Iterator[str]:
    peak = both.traced.peak
    yield f"{script}: {both.traced.steps} steps traced under fake tensors, nothing allocated"
    yield f"peak: {peak['name']}, {_gib(peak['total'])} allocated"
    yield ""
    yield f"{'GiB':20}" + "".join(f"{kind:>18}" for kind in _KINDS) + f"{'total':>10}"
    for phase in both.traced.phases:
        cells = "".join(f"{phase['bytes_by_kind'].get(kind, 0) / _GIB:>18.2f}" for kind in _KINDS)
        mark = " <- peak" if phase["name"] == peak["name"] else ""
        yield f"{phase['name']:20}{cells}{phase['total'] / _GIB:>10.2f}{mark}"
    yield ""
    yield "largest at the peak:"
    for each in peak["largest"][:8]:
        where = f"line {each['line']}" if each["line"] else "no line of the script"
        yield f"  {_gib(each['bytes']):>10}  {each['kind']}, {where}"
    yield ""
    yield from _compared(both)
    if both.read is not None and both.read.gpu is not None:
        gpu = both.read.gpu
        said = "fits" if both.fits else "does not fit"
        yield f"{said} {gpu.name}: {_gib(peak['total'])} of the {_gib(gpu.room)} that torch gets"
    yield "assumed:"
    for text in both.traced.assumed:
        yield f"  {text}"
    yield "  one process, no quantization, no compiled graph; kernels' own workspaces not counted"


def _compared(both: Beside) -> Iterator[str]:
    if both.read is None:
        yield f"not read: {both.unread}"
        return
    yield f"{'GiB':20}{'read':>10}{'traced':>10}"
    for span, names in _SPANS.items():
        read = [phase.total for phase in both.read.phases if phase.name in names]
        traced = [phase["total"] for phase in both.traced.phases if phase["name"] in names]
        cells = (f"{max(sizes, default=0) / _GIB:>10.2f}" for sizes in (read, traced))
        yield f"{span:20}" + "".join(cells)
    for each in differences(both):
        yield f"  {each.kind}: {_gib(each.read)} read, {_gib(each.traced)} traced: {each.cause}"


def _gib(size: int) -> str:
    return f"{size / _GIB:.2f} GiB"
