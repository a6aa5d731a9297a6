"""A set of changes that makes a run fit, as text."""

from collections.abc import Iterator, Sequence

from memlint.memory.fit import Fitted, Measure
from memlint.rule.savings import ends

_GIB = 2**30


def lines(fitted: Fitted, script: str | None, assumptions: Sequence[str] = ()) -> Iterator[str]:
    """Yield the fixes, what they save, and how much then fits.

    script, assumptions: named in the command that applies it.
    """
    before, after = _peak(fitted.before, fitted.room), _peak(fitted.after, fitted.room)
    room = f"{gib(fitted.room)} of {fitted.gpu}"
    count = len(fitted.chosen)
    changes = f"{count} change{'s' * (count > 1)} ({fitted.tier})"
    if ends(fitted.before)[1] <= fitted.room:
        faster = f"; with {changes} {after}:" if count else ""
        yield f"peak {before}: fits the {room} as it is{faster}"
    elif fitted.fits:
        yield f"peak {before}, more than the {room}; with {changes} {after}:"
    else:
        yield f"peak {before}, and {after} with all that helps: more than the {room}"
    for measure in fitted.chosen:
        yield f"  {_measure(measure)}"
        if measure.trade:
            yield f"    {measure.trade}"
    yield from _host(fitted)
    if fitted.applied and script is not None:
        unsafe = any(each.kind == "unsafe" for each in fitted.applied)
        remark = " (changes training)" if unsafe else ""
        more = "".join(f" --assume {each}" for each in assumptions)
        command = f"memlint fix --fit --gpu {fitted.gpu}{more} {script}"
        yield f"`{command}` applies the fixes{remark}"
    then = "with that, " if count else ""
    longer = f", or sequences of up to {fitted.seq_len:,} tokens" if fitted.seq_len else ""
    if fitted.micro_batch == 1:
        yield f"{then}a micro-batch of one row fits{longer}"
    elif fitted.micro_batch:
        yield f"{then}micro-batches of up to {fitted.micro_batch:,} rows fit{longer}"
    else:
        yield f"{then}not even a micro-batch of one row fits"


def _host(fitted: Fitted) -> Iterator[str]:
    if fitted.on_host or fitted.host:
        of_host = f" of {gib(fitted.host)}" if fitted.host else ""
        yield f"  {gib(fitted.on_host)}{of_host} wait in the host's memory"


def _measure(measure: Measure) -> str:
    kind = "by hand" if measure.kind == "display" else measure.kind.value
    codes = ",".join(measure.codes)
    time = f" ({measure.time:+.0%} time)" if abs(measure.time) >= 0.05 else ""
    return f"{codes or '-':7} {kind:8} {measure.message}{time}"


def _peak(size: int, room: int) -> str:
    """Return a peak, with its upper end where that alone is more than the room."""
    upper = ends(size)[1]
    return gib(size) + (f" (up to {gib(upper)})" if size <= room < upper else "")


def gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"


def range_of(peak: int) -> str:
    """Return between which ends a peak lies, in GiB."""
    low, high = ends(peak)
    return f"{low / _GIB:.1f} to {high / _GIB:.1f}"
