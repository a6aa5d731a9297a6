"""``memlint oom``: show which tensor of the run could not be allocated, and what helps."""

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from memlint.memory.oom_candidates import Candidate, Explanation
from memlint.rule.findings import Finding
from memlint.run.description import Described

_SHOWN = 5
_NEAR = 0.03  # of a GPU's memory, which drivers report as a little more or less
_MAX_BYTES = 128 << 20


def oom_command(
    log: str,
    script: str | None,
    *,
    settings_file: str | None,
    assumptions: tuple[str, ...],
    target: str | None,
    output_format: str,
) -> int:
    """Print the likeliest tensors and return the exit status, 0."""
    from memlint.memory.oom_candidates import OomError, explain
    from memlint.memory.settings import SettingsError

    text = _read(log)
    try:
        run = _run(script, settings_file, target)
        explanation = explain(text, _settings(run, assumptions, target))
        findings = run.find(None, True) if run is not None and run.find is not None else []
        found = _found(run, findings) if run is not None else {}
        weighed = _weighed(run, explanation, findings) if run is not None else None
    except OomError as error:
        raise click.ClickException(f"{'standard input' if log == '-' else log}: {error}") from None
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    if output_format == "json":
        values = explanation.to_json()
        for candidate in values["candidates"]:
            candidate["fixes"] = _placed(candidate["fixes"], found)
        click.echo(json.dumps({**values, "estimate": weighed}, indent=2))
    else:
        click.echo("\n".join((*_lines(explanation, found), *_weighed_lines(weighed))))
    return 0


def _read(log: str) -> str:
    from memlint.cli.runs_of_file import read_named_or_stdin

    data = read_named_or_stdin(log, _MAX_BYTES)
    # Windows PowerShell redirects output as UTF-16.
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8", "replace")


def _run(script: str | None, settings_file: str | None, target: str | None) -> Described | None:
    """Return the run that is described, as ``memlint estimate`` reads it; None without one."""
    if script is None and settings_file is None:
        return None
    from memlint.cli.runs_of_file import runs_of_file

    run, *others = runs_of_file(script, settings_file, target)
    if others:
        places = " or ".join(each.place for each in (run, *others))
        raise click.UsageError(
            f"{script} describes several runs: give the one that failed, {places}"
        )
    return run


def _settings(run: Described | None, assumptions: tuple[str, ...], target: str | None) -> Any:
    """Return the run's settings; None if no model is named."""
    from memlint.cli.runs_of_file import configured
    from memlint.memory.settings import read_with

    values = run.settings if run is not None else {}
    if run is not None and run.find is not None:
        assumptions = configured(run.path, target, None, assumptions).assume
    if "model" in values or any(text.startswith("model=") for text in assumptions):
        return read_with(values, "", assumptions)
    if assumptions:
        raise click.UsageError("--assume needs a model: give --assume model=NAME as well")
    return None


def _weighed(
    run: Described, explanation: Explanation, findings: Iterable[Finding]
) -> dict[str, Any] | None:
    """Return what the estimate says of the run: its peak, what lowers it by how many bytes, and
    the next command; None where no estimate can be made."""
    from memlint.memory.fit import candidates, run_of
    from memlint.memory.gpus import known_gpus
    from memlint.rule.savings import ends

    message = explanation.message
    if explanation.settings is None:
        return None
    weighed = run_of(explanation.settings)
    peak = weighed.peak()
    less: dict[tuple[str, ...], tuple[int, str]] = {}
    for one in candidates(weighed, findings):
        saved = peak - weighed.peak(one.changes)
        settings = tuple(key for key, _ in one.changes)
        # Of several values for the same settings, the mildest that helps.
        if saved > 0 and saved < less.get(settings, (peak, ""))[0]:
            less[settings] = saved, one.message
    total, named = message.total or 0, "" if run.script else "--settings "
    gpu = min(known_gpus().values(), key=lambda each: abs(each.bytes - total))
    name = gpu.name if abs(gpu.bytes - total) < _NEAR * total else "NAME"
    return {
        "peak": peak,
        "range": ends(peak),
        # What torch held and wanted is the least that the run needs.
        "contradicted": (message.allocated or 0) + message.shown > ends(peak)[1],
        "remedies": [
            {"message": words, "bytes": saved}
            for saved, words in sorted(less.values(), reverse=True)[:_SHOWN]
        ],
        "next": f"memlint estimate --fit --gpu {name} {named}{run.path}",
    }


def _weighed_lines(weighed: dict[str, Any] | None) -> Iterator[str]:
    if weighed is None:
        return
    peak, low, high = (f"{size / 2**30:.1f}" for size in (weighed["peak"], *weighed["range"]))
    yield f"by the estimate the run needs {peak} GiB at its peak ({low} to {high} GiB)"
    for each in weighed["remedies"]:
        yield f"  {each['bytes'] / 2**30:5.1f} GiB less: {each['message']}"
    if weighed["contradicted"]:
        yield "The log has more than that: the run had other settings (`--assume`), or other rows."
    yield f"next: {weighed['next']}"


def _found(run: Described, findings: Iterable[Finding]) -> dict[str, str]:
    """Return the rules that find something in the run's file, with the place of the first."""
    source, places = run.source, dict[str, str]()
    for finding in findings:
        place = source.location(finding.span.start)
        cell = f":cell {place.cell}" if place.cell else ""
        places.setdefault(finding.code, f"{run.path}{cell}:{place.row}")
    return places


def _placed(fixes: Iterable[str], found: Mapping[str, str]) -> list[str]:
    """Return the fixes, first those of rules that find something, with the place."""
    placed = []
    for fix in fixes:
        place = found.get(fix.partition(":")[0])
        placed.append((place is None, f"{fix} (at {place})" if place else fix))
    return [words for _, words in sorted(placed, key=lambda pair: pair[0])]


def _lines(explanation: Explanation, found: Mapping[str, str]) -> Iterator[str]:
    from memlint.memory.lifetimes import format_size

    message = explanation.message
    where = f" on GPU {message.gpu}" if message.gpu is not None else ""
    yield f"torch could not allocate {format_size(message.shown)}{where}"
    known = [
        f"{format_size(size)} {word}"
        for word, size in (
            ("in all", message.total),
            ("free", message.free),
            ("allocated", message.allocated),
            ("reserved but unused", message.unallocated),
        )
        if size is not None
    ]
    if known:
        yield f"  {', '.join(known)}"
    if len(explanation.messages) > 1:
        yield f"  the first of {len(explanation.messages)} messages in the log"
    if explanation.evidence.frame:
        yield f"  at: {explanation.evidence.frame}"
    if explanation.settings is None:
        names = ", ".join(explanation.models)
        yield (
            f"  model: {names} (by the log)" if names else "  model: unknown; usual shapes assumed"
        )
    yield ""
    for number, candidate in enumerate(explanation.likely[:_SHOWN], 1):
        yield from _candidate(number, candidate, _placed(candidate.fixes, found))
    unused = message.unallocated
    if unused is not None and unused >= message.shown:
        yield (
            "More memory is reserved but unused than was requested: memory is fragmented. "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may be enough."
        )


def _candidate(number: int, candidate: Candidate, fixes: list[str]) -> Iterator[str]:
    yield f"{number}. {candidate.kind}: {candidate.tensor}  ({candidate.share:.0%})"
    yield f"   {candidate.arithmetic}"
    yield f"   phase: {candidate.phase}"
    if number <= 3:
        for fix in fixes:
            yield f"   - {fix}"
    yield ""
