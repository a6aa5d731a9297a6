"""``memlint oom``: show which tensor of the run could not be allocated, and what helps."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memlint.memory.oom_candidates import Candidate, Explanation
    from memlint.run.described import Described

_SHOWN = 5
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
        found = _found(run) if run is not None else {}
    except OomError as error:
        raise click.ClickException(f"{'standard input' if log == '-' else log}: {error}") from None
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    if output_format == "json":
        values = explanation.to_json()
        for candidate in values["candidates"]:
            candidate["fixes"] = _placed(candidate["fixes"], found)
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo("\n".join(_lines(explanation, found)))
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


def _found(run: Described) -> dict[str, str]:
    """Return the rules that find something in the run's file, with the place of the first
    finding."""
    source, places = run.source, dict[str, str]()
    for finding in run.find(None, True) if run.find is not None else ():
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
    from memlint.memory.oom_candidates import format_size

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
    for number, candidate in enumerate(explanation.candidates[:_SHOWN], 1):
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
