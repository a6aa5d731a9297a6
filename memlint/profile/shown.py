"""A profile as text, with the estimate of the same run beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from memlint.memory.oom_candidates import format_size
from memlint.memory.oom_log import DATA
from memlint.profile.peak import DevicePeak
from memlint.rule.remedies import fixes_against

_GROUPS = 12
_FIXES = 2
_ADVISED = 3
# The memory model's kinds, and those of a snapshot that are the same.
_SAME = {
    "weights": ("weights", "reference_model", "dequantized_weight", "gathered_parameter"),
    "gradients": ("weight_gradient", "gradient_bucket"),
    "optimizer states": ("optimizer_state",),
}


def text(path: str, peaks: list[DevicePeak], settings: object) -> Iterator[str]:
    """Yield the lines. settings: of the run, for what helps; None where nothing is known."""
    if not peaks:
        yield f"{path}: no GPU held memory while this was recorded"
    for peak in peaks:
        yield from _device(path, peak, settings)


def _device(path: str, peak: DevicePeak, settings: object) -> Iterator[str]:
    moment = peak.moment
    yield f"{path}: GPU {peak.device}, {peak.events:,} events"
    unused = max(moment.reserved - moment.allocated, 0)
    after = f", {moment.time / 1e6:.2f} s after the first event" if moment.index >= 0 else ""
    yield f"peak: {format_size(moment.allocated)} allocated{after}"
    yield (
        f"      {format_size(moment.reserved)} reserved, {format_size(unused)} of it in no tensor"
        " (fragments and cached blocks)"
    )
    if moment.refused:
        yield f"      torch could not allocate {format_size(moment.refused)}"
        if unused >= moment.refused:
            yield "      enough was reserved: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    yield ""
    yield "alive at the peak, by kind:"
    for kind, size in peak.by_kind.items():
        yield f"  {format_size(size):>12}  {size / max(moment.allocated, 1):4.0%}  {kind}"
    yield ""
    yield "by place:"
    for group in peak.groups[:_GROUPS]:
        tensors = f"{group.tensors:,} tensor{'s' if group.tensors != 1 else ''}"
        place = f"  {group.place}" if group.place else ""
        yield f"  {format_size(group.bytes):>12}  {group.kind}, {tensors}{place}"
    yield ""
    yield from advice(peak.by_kind, settings)


def advice(kinds: Iterable[str], settings: object) -> Iterator[str]:
    """Yield what helps against the first of these kinds that anything helps against."""
    advised = 0
    for kind in kinds:
        fixes = fixes_against(kind, settings, DATA["remedies"])[:_FIXES]
        if fixes and advised < _ADVISED:
            advised += 1
            yield f"against {kind}:"
            yield from (f"  - {fix}" for fix in fixes)
            yield ""


def beside(peak: DevicePeak, estimated: Mapping[str, int]) -> Iterator[str]:
    """Yield what the memory model says of the same run. estimated: bytes by kind at its peak."""
    measured = peak.by_kind
    rows = [
        (name, sum(measured.get(kind, 0) for kind in kinds), estimated.get(name, 0))
        for name, kinds in _SAME.items()
    ]
    rows.append(
        (
            "all else",
            peak.moment.allocated - sum(row[1] for row in rows),
            sum(estimated.values()) - sum(row[2] for row in rows),
        )
    )
    yield f"{'measured':>14}{'estimated':>14}"
    for name, there, said in (*rows, ("in all", peak.moment.allocated, sum(estimated.values()))):
        yield f"{format_size(there):>14}{format_size(said):>14}  {name}"
    name, there, said = max(rows, key=lambda row: abs(row[1] - row[2]))
    if abs(there - said) > 0.05 * max(peak.moment.allocated, 1):
        yield f"they differ most in {name}: see what `memlint estimate` assumes, and --assume"
