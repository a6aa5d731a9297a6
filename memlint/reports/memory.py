"""An estimate as text: totals, a table of phases by kind, bars, assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.memory.lifetimes import format_size

if TYPE_CHECKING:
    from memlint.memory import Estimate, Interval
    from memlint.memory.timeline import Phase

_GIB = 2**30
_KINDS = 6
_HOLES = 1.2  # reserved over allocated from which on it is worth a word
_TRAINED = {
    None: "all weights trained",
    "none": "all weights trained",
    "embeddings": "all but the embeddings trained",
    "backbone": "the head alone trained",
}


def as_text(estimate: Estimate) -> str:
    """Return the estimate as text for people."""
    return "\n".join(_lines(estimate))


def _lines(estimate: Estimate) -> Iterator[str]:
    settings = estimate.settings
    model, family = settings.model, estimate.architecture.family
    name = model if isinstance(model, str) else model.get("_name_or_path", family)
    trained = estimate.trainable / max(estimate.parameters, 1)
    yield (
        f"{name}: {_count(estimate.parameters)} parameters, {_count(estimate.trainable)} trained"
        + (f" ({trained:.1%})" if trained < 1 else "")
    )
    yield f"read: {'; '.join(words_of_settings(estimate))}"
    yield f"peak: {estimate.peak.name}"
    yield ""
    for label, interval in (
        ("allocated", estimate.allocated),
        ("reserved", estimate.reserved),
        ("nvidia-smi", estimate.nvidia_smi),
    ):
        yield f"  {label:12}{interval.estimate / _GIB:>5.2f} GiB   ({_range(interval)})"
    holes = estimate.reserved.estimate > _HOLES * estimate.allocated.estimate
    if holes and not settings.expandable and not settings.generation.get("vllm"):
        yield "  little more than what is allocated is reserved by segments that grow:"
        yield "  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    yield ""
    yield from table(estimate.phases, estimate.peak)
    yield ""
    yield f"largest at the peak ({estimate.peak.name}):"
    yield from largest(estimate.peak)
    if estimate.gpu is not None:
        yield ""
        gpu, allocated = estimate.gpu, estimate.allocated
        yield (
            f"{estimate.verdict} {gpu.name}: {_range(allocated)} GiB of the "
            f"{format_size(gpu.room)} that torch gets of {format_size(gpu.bytes)}"
        )
    if estimate.by_gpus:
        yield ""
        yield from _on_gpus(estimate)
    if estimate.assumptions:
        yield ""
        yield "assumed (each is settled by its flag; ? above), what matters most first:"
        for assumption in estimate.assumptions:
            other = f"{assumption.name}={assumption.other}: {format_size(assumption.peak)}"
            swing = f" ({other})" if assumption.peak else ""
            yield f"  {assumption.flag:44} {assumption.reason}{swing}"


def words_of_settings(estimate: Estimate) -> Iterator[str]:
    """The settings in force, in words; those that are assumed with a question mark."""
    settings, open_ = estimate.settings, {each.name for each in estimate.assumptions}

    def shown(name: str, value: object = None) -> str:
        found = getattr(settings, name) if value is None else value
        text = f"{found:,}" if type(found) is int else str(found)
        return f"{text}?" if name in open_ else text

    yield shown("trainer")
    labels = f"{settings.head}, {settings.labels or estimate.architecture.labels} labels"
    yield labels if settings.head in ("classes", "tokens") else "language model"
    length = f"{shown('micro_batch')} x {shown('seq_len')} tokens"
    yield length + (" packed" if settings.packed else " each" if settings.fixed_length else "")
    weights = f"weights {shown('weights_dtype')}, compute {shown('compute_dtype')}"
    quantization, lora = settings.quantization, settings.lora
    yield weights + (f", base {quantization.type}" if quantization is not None else "")
    targets = lora.target_modules if lora is not None else ()
    names = targets if isinstance(targets, str) else ",".join(targets or ())
    yield f"adapters r={lora.r} on {names}" if lora is not None else _TRAINED[settings.frozen]
    yield shown("optimizer")
    yield f"loss {shown('loss')}"
    yield f"checkpointing {shown('checkpointing')}"
    world = settings.world_size or 1
    alone = world == 1 and "world_size" not in open_
    yield "1 GPU" if alone else f"{shown('sharding')} over {shown('world_size')} GPUs"


def largest(phase: Phase) -> Iterator[str]:
    """The largest tensors of a phase, a line each."""
    for tensor in sorted(phase.tensors, key=lambda tensor: -tensor.bytes)[:8]:
        if tensor.bytes:
            yield f"  {format_size(tensor.bytes):>10}  {tensor.name} [{tensor.kind}]"


def table(phases: Sequence[Phase], peak: Phase) -> Iterator[str]:
    """A row for each phase, a column for each of the largest kinds."""
    totals: dict[str, int] = {}
    for phase in phases:
        for kind, size in phase.bytes_by_kind.items():
            totals[kind] = max(totals.get(kind, 0), size)
    ranked = sorted(totals, key=lambda kind: -totals[kind])
    kinds = ranked[:_KINDS]
    widths = [max(8, *map(len, kind.split())) + 2 for kind in kinds]
    words = [kind.rpartition(" ") for kind in kinds]  # two lines: a kind may be of two words
    above = "".join(f"{first:>{width}}" for (first, _, _), width in zip(words, widths, strict=True))
    header = "".join(f"{last:>{width}}" for (_, _, last), width in zip(words, widths, strict=True))
    unit, name = (_GIB, "GiB") if peak.total >= _GIB else (2**20, "MiB")
    if above.strip():
        yield f"{'':16}{above}"
    yield f"{name:16}{header}{'others':>10}{'total':>10}"
    for phase in phases:
        held = phase.bytes_by_kind
        sizes = [_cell(held.get(kind, 0), unit) for kind in kinds]
        cells = "".join(f"{size:>{width}}" for size, width in zip(sizes, widths, strict=True))
        rest = sum(size for kind, size in held.items() if kind not in kinds)
        mark = " <- peak" if phase is peak else ""
        yield f"{phase.name:16}{cells}{_cell(rest, unit):>10}{_cell(phase.total, unit):>10}{mark}"


def _on_gpus(estimate: Estimate) -> Iterator[str]:
    """A row for each strategy, a column for each number of GPUs."""
    rows: dict[str, dict[int, str]] = {}
    for one in estimate.by_gpus:
        cell = f"{one.peak / _GIB:.2f} {one.verdict.replace('does not fit', 'too much')}".strip()
        rows.setdefault(one.sharding, {})[one.world_size] = cell
    counts = sorted({one.world_size for one in estimate.by_gpus})
    width = max(len(cell) for row in rows.values() for cell in row.values()) + 2
    yield "allocated on each of so many GPUs, GiB (--assume world_size=N, --assume sharding=NAME):"
    yield f"  {'GPUs':10}" + "".join(f"{count:>{width}}" for count in counts)
    for sharding, row in rows.items():
        yield f"  {sharding:10}" + "".join(f"{row.get(count, '-'):>{width}}" for count in counts)


def _range(interval: Interval) -> str:
    return f"{interval.low / _GIB:.1f} to {interval.high / _GIB:.1f}"


def _cell(size: int, unit: int) -> str:
    return f"{size / unit:.2f}" if size * 256 >= unit else "-"


def _count(number: int) -> str:
    for limit, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            return f"{number / limit:.2f}{unit}"
    return str(number)
