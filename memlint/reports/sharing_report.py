"""How a run is shared over many GPUs, as text: candidates, the choice, what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlint.reports.fit_report import gib, range_of

if TYPE_CHECKING:
    from memlint.parallel.sharding_search import Candidate, Shared

_GIB = 2**30


def lines(shared: Shared) -> Iterator[str]:
    """Yield the table of candidates, the chosen one and what goes with it."""
    known, gpu, gpus = shared.known, shared.gpu, shared.gpus
    now = f"{known.micro_batch} x {known.gradient_accumulation}"
    yield (
        f"{gpus} x {gpu.name}, {gib(gpu.room)} for torch on each; a step has {shared.rows:,} rows"
        f" ({now} on each GPU today)"
    )
    yield ""
    yield from _table(shared)
    yield ""
    yield from _model(shared)
    for sentence in shared.left_out:
        yield f"left out: {sentence}"
    chosen = shared.chosen
    if chosen is None:
        least = min(shared.candidates, key=lambda each: each.peak)
        yield f"nothing fits: the least is {range_of(least.peak)} GiB with {least.strategy.name}"
        yield "adapters or a base of 4 bits need less: `memlint estimate --fit` without --gpus"
        return
    word = "fits" if chosen.verdict == "fits" else "just fits"
    yield f"chosen: {chosen.strategy.name}, {range_of(chosen.peak)} GiB on each GPU: {word}"
    yield from _changes(shared, chosen)


def _table(shared: Shared) -> Iterator[str]:
    rows = [
        (
            each.strategy.name,
            f"{each.micro_batch} x {each.accumulation}",
            range_of(each.peak),
            f"{each.traffic.between / _GIB:.1f}",
            f"{each.traffic.to_host / _GIB:.1f}" if each.traffic.to_host else "-",
            f"{each.traffic.held / _GIB:,.0f}" if each.traffic.held else "-",
            f"{each.seconds:.2f}",
            each.verdict,
        )
        for each in shared.candidates
    ]
    head = ("strategy", "rows x steps", "GiB a GPU", "sent", "to host", "on host", "s", "")
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    marks = [" ", *("*" if each == shared.chosen else " " for each in shared.candidates)]
    for mark, row in zip(marks, (head, *rows), strict=True):
        cells = [
            cell.ljust(width) if place in (0, 7) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"{mark} {'  '.join(cells)}".rstrip()


def _model(shared: Shared) -> Iterator[str]:
    from memlint.parallel.traffic import GPUS_OF_A_NODE, HOST_MEMORY, link_of

    link, host = link_of(shared.gpu, shared.gpus), shared.gpu.host
    over = " between machines of 8" if shared.gpus > GPUS_OF_A_NODE else ""
    yield "sent, to host: GiB that each GPU moves in a step; on host: GiB of a machine's memory; s:"
    yield (
        f"seconds of moving alone at {link / 1e9:.0f} GB/s to other GPUs{over},"
        f" {host / 1e9:.0f} to the host, {HOST_MEMORY / 1e9:.0f} in its memory"
    )


def _changes(shared: Shared, chosen: Candidate) -> Iterator[str]:
    known = shared.known
    now = known.micro_batch, known.gradient_accumulation
    if now != (chosen.micro_batch, chosen.accumulation):
        yield (
            f"  in the script: micro-batches of {chosen.micro_batch}, {chosen.accumulation}"
            f" accumulated (now {now[0]} and {now[1]})"
        )
    groups = shared.gpus // chosen.strategy.contexts
    rows = chosen.micro_batch * chosen.accumulation * groups
    if rows != shared.rows:
        yield f"  a step then has {rows:,} rows, not {shared.rows:,}"
    for measure in shared.fixes:
        codes = f" ({','.join(measure.codes)})" if measure.codes else ""
        yield f"  in the script: {measure.message}{codes}"
        if measure.trade:
            yield f"    {measure.trade}"
    if known.sharding not in (None, "none", "ddp", chosen.strategy.sharding):
        yield f"  {known.sharding} is read today: options in the script win over a launch file"
    strategy, held = chosen.strategy, chosen.traffic.held
    if held:
        yield f"  a machine needs {gib(held)} of host memory for it"
    if strategy.contexts > 1:
        yield (
            f"  keys and values go around {strategy.contexts} GPUs; in the script: pad rows to a"
            f" multiple of {2 * strategy.contexts} (`pad_to_multiple_of`)"
        )
    trade = _TRADES.get(strategy.host or strategy.sharding)
    if trade is not None:
        yield f"  {trade}"


_TRADES = {
    "zero1": "weights are kept in 16 bits beside a float32 copy that is stepped",
    "zero2": "gradients are reduced after every micro-batch, not once a step",
    "zero3": "weights are gathered twice for every micro-batch; checkpoints are saved in shards",
    "fsdp": "weights are gathered twice for every micro-batch; checkpoints are saved in shards",
    "fsdp2": "weights are gathered twice for every micro-batch; checkpoints are saved in shards",
    "states": "the CPU makes the step: it waits for gradients, and the GPUs for it",
    "parameters": "all weights cross the bus for every micro-batch, and the CPU makes the step",
}
