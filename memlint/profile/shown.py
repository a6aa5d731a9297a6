"""A profile as text, with the estimate of the same run beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlint.memory.lifetimes import format_size
from memlint.memory.oom_log import DATA
from memlint.profile.peak import DevicePeak
from memlint.profile.stacks import DATA as SEEN
from memlint.rule.remedies import fixes_against

_GROUPS = 12
_FIXES = 2
_ADVISED = 3
_LARGE = 0.05  # of the peak: against less, nothing is advised
# Kinds of a snapshot, in the memory model's words; of several, the first stands for them.
SAME: dict[str, str] = SEEN["same"]


def text(path: str, peaks: list[DevicePeak], settings: object) -> Iterator[str]:
    """Yield the lines. settings: of the run, for what helps; None where nothing is known."""
    if not peaks:
        yield f"{path}: no GPU held memory while this was recorded"
    for peak in peaks:
        yield from _device(path, peak, settings)


def _device(path: str, peak: DevicePeak, settings: object) -> Iterator[str]:
    yield f"{path}: GPU {peak.device}, {peak.events:,} events"
    unused = max(peak.reserved - peak.allocated, 0)
    seconds = "" if peak.time is None else f", {peak.time / 1e6:.2f} s after the first"
    when = f" at event {peak.index + 1:,}{seconds}" if peak.index >= 0 else ", before any event"
    yield f"peak: {format_size(peak.allocated)} allocated{when}"
    yield (
        f"      {format_size(peak.reserved)} reserved, {format_size(unused)} of it in no tensor"
        " (fragments and cached blocks)"
    )
    if peak.refused:
        yield f"      torch could not allocate {format_size(peak.refused)}"
        if peak.unused >= peak.refused and not peak.expandable:
            yield "      enough was reserved: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    yield from (f"      {words}" for words in SEEN["histories"].get(peak.history, ()))
    yield ""
    yield "alive at the peak, by kind:"
    for kind, size in peak.by_kind.items():
        yield f"  {format_size(size):>12}  {size / max(peak.allocated, 1):4.0%}  {kind}"
    yield ""
    yield "by place:"
    for group in peak.groups[:_GROUPS]:
        tensors = f"{group.tensors:,} tensor{'s' if group.tensors != 1 else ''}"
        tensors += f" of {group.operator}" if group.operator else ""
        yield f"  {format_size(group.bytes):>12}  {group.kind}, {tensors}  {group.place}".rstrip()
    yield ""
    large = [kind for kind, size in peak.by_kind.items() if size >= _LARGE * peak.allocated]
    yield from advice(large, peak if settings is None and peak.run != "Trainer" else settings)


def advice(kinds: Iterable[str], settings: object) -> Iterator[str]:
    """Yield what helps against the first of these kinds that anything helps against.

    settings: of the run; a peak if no trainer has any, so that rules' pages are of no help either.
    """
    by_hand, advised = isinstance(settings, DevicePeak), 0
    lines = (SEEN if by_hand else DATA)["remedies"]
    for kind in kinds:
        fixes = fixes_against(kind, settings, lines)
        fixes = tuple(each for each in fixes if not by_hand or " ".join(lines).count(each))
        if fixes and advised < _ADVISED:
            advised += 1
            yield f"against {kind}:"
            yield from (f"  - {fix}" for fix in fixes[:_FIXES])
            yield ""
