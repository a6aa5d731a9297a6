"""``memlint estimate``: show how much GPU memory a run needs, and whether it fits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from memlint.cli.interrupts import end_cleanly, warn_of_programs
from memlint.cli.runs_of_file import configured, read_json, require_model, runs_of_file, unread
from memlint.rule.savings import Pricing
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.memory import Estimate
    from memlint.memory.fit import Fitted
    from memlint.parallel.sharding_search import Shared
    from memlint.rule.findings import Finding
    from memlint.run.description import Described

    _Result = Estimate | Fitted | Shared
    _Shown = list[tuple[Described, _Result]]


class Asked(NamedTuple):
    """What is asked of each run. fit: what makes it fit. gpus: how many share it; 0: as it says.
    host: bytes of the host's memory that may be taken; 0: any."""

    pricing: Pricing
    fit: bool
    gpus: int
    host: int = 0


def estimate_command(
    script: str | None,
    *,
    settings_file: str | None,
    gpu: str | None,
    assumptions: tuple[str, ...],
    model_config: str | None,
    target: str | None,
    output_format: str,
    fit: bool = False,
    gpus: int | None = None,
    host_memory: int = 0,
    write_launch: str | None = None,
) -> int:
    """Print the estimate of each run and return the exit status: 1 if one does not fit the GPU,
    else 0.

    fit: print instead the fixes that make the run fit, or how ``gpus`` GPUs share it.
    write_launch: the folder in which to write what starts it so.
    """
    runs = runs_of_file(script, settings_file, target)
    if script is not None:
        settings = configured(runs[0].path, target, gpu, assumptions)
        gpu, assumptions = settings.gpu, settings.assume
    asked = Asked(Pricing(gpu or "", assumptions), fit, gpus or 0, host_memory)
    _check(asked, runs, write=write_launch is not None)
    shape = read_json(model_config) if model_config is not None else None
    if shape is not None:
        runs = [run._replace(settings={**run.settings, "model": {"config": shape}}) for run in runs]
    if output_format == "html":
        return _show_page(runs, asked, target)
    shown = results(runs, asked)
    several = len(runs) > 1
    as_text = output_format != "json"
    if as_text:
        click.echo(_text(shown, assumptions, several))
    written = _written(*shown[0], write_launch) if write_launch is not None else ()
    if not as_text:
        click.echo(_json(shown, several, written))
    elif written:
        click.echo("\n".join(f"wrote {each}" for each in written))
        click.echo(f"start it with: sh {written[-1]}")
    return 1 if any(result.fits is False for _, result in shown) else 0


def estimate_of(
    script: str, target: str | None, gpu: str | None, assumptions: tuple[str, ...]
) -> Estimate:
    """Return what the memory model says of the first run of a file."""
    settings = configured(script, target, gpu, assumptions)
    asked = Asked(Pricing(settings.gpu or "", settings.assume), False, 0)
    return cast("Estimate", results(runs_of_file(script, None, target)[:1], asked)[0][1])


def trace_command(
    script: str,
    arguments: tuple[str, ...],
    target: str | None,
    gpu: str | None,
    assumptions: tuple[str, ...],
    seconds: float,
    as_json: bool,
    fakes: bool = True,
) -> int:
    """Print what a run of the script keeps alive, traced or real, beside what is read of it."""
    from memlint.cli.inputs import versions_that_run
    from memlint.trace.beside import counted_beside

    if os.name == "nt" or not script.endswith(".py"):
        raise click.UsageError(f"{script}: only a Python script is run, on Linux or macOS")
    if not os.path.isfile(script):
        raise click.ClickException(f"{script} cannot be read: no such file")
    end_cleanly()
    warn_of_programs(script)
    # Of what the project names something else may be installed.
    releases = target or versions_that_run("this")
    read = partial(estimate_of, script, releases, gpu, assumptions)
    try:
        status, said = counted_beside(
            script, arguments, read, fakes=fakes, seconds=seconds, as_json=as_json
        )
    except SyntaxError as error:
        raise unread(script, error) from None
    click.echo(said, err=status == 2 or (status == 1 and "\n" not in said))
    return status


def _show_page(runs: list[Described], asked: Asked, target: str | None) -> int:
    """Print the page of the runs and return the exit status."""
    from memlint.page import page_of_runs
    from memlint.page.shown_runs import shown

    if asked.fit or asked.gpus:
        raise click.UsageError("--output-format html shows runs as they are: no --fit, no --gpus")
    found = []
    for run, _ in results(runs, asked):
        codes = _usual_codes(run.path, target)
        findings = run.find(codes, True) if run.find is not None else ()
        page = shown(run, asked.pricing, [each for each in findings if each.code in codes])
        found += [page] if page is not None else []
    for piece in page_of_runs(found):
        click.echo(piece, nl=False)
    return 1 if any(run.estimate.fits is False for run in found) else 0


def _usual_codes(path: str, target: str | None) -> frozenset[str]:
    """Return the rules that ``check`` asks of a script, those on request left out."""
    from memlint.rule.registry import Choice, load
    from memlint.run.jobs import chosen_codes

    codes = chosen_codes(configured(path, target), Choice())
    return codes - {rule.code for rule in load(codes) if rule.on_request}


def _check(asked: Asked, runs: list[Described], *, write: bool) -> None:
    """Raises ``UsageError``: an option lacks another. write: launch files are asked for."""
    named = asked.pricing.gpu or any(run.settings.get("gpu") for run in runs)
    if asked.fit and not named:
        raise click.UsageError("--fit needs --gpu NAME, such as rtx4090-24gb")
    if asked.host and not asked.fit:
        raise click.UsageError("--host-memory is for --fit")
    if write and not (asked.fit and asked.gpus > 1):
        raise click.UsageError("--write-launch needs --fit and --gpus N, two at least")
    if write and len(runs) > 1:
        places = ", ".join(run.place for run in runs)
        raise click.UsageError(f"--write-launch is for one run, and there are several: {places}")


def results(runs: list[Described], asked: Asked) -> _Shown:
    """Each run that can be estimated with its result; what keeps others from it is printed.

    Raises:
        ClickException: no run can be estimated.
    """
    shown: _Shown = []
    failed: list[str] = []
    for run in runs:
        try:
            if run.find is not None:
                require_model(run, asked.pricing.assumptions)
            shown.append((run, _result(run, asked)))
        except click.ClickException as error:
            failed.append(str(error))
        except ValueError as error:
            failed.append(f"{run.place}: {error}" if len(runs) > 1 else str(error))
    if not shown:
        raise click.ClickException(failed[0])
    for reason in failed:
        click.echo(reason, err=True)
    return shown


def _result(run: Described, asked: Asked) -> _Result:
    """Raises ``SettingsError``, a ``ValueError``: a setting or the model is not known."""
    from memlint.memory import estimate
    from memlint.memory.settings import with_pricing

    settings = with_pricing(run.settings, asked.pricing)
    if asked.fit and asked.gpus > 1:
        from memlint.parallel.sharding_search import share

        return share(settings, _findings(run), asked.gpus, asked.host)
    if asked.gpus:
        alone = settings.sharding == "none" and not settings.sharding_options
        open_ = {"sharding": None} if alone or asked.gpus == 1 else {}
        settings = settings._replace(world_size=asked.gpus, **open_)
    if not asked.fit:
        return estimate(settings)
    from memlint.memory.fit import fit as fitted
    from memlint.memory.fit import run_of

    return fitted(run_of(settings), _findings(run), asked.host)


def _findings(run: Described) -> tuple[Finding, ...]:
    return tuple(run.find(None, True)) if run.find is not None else ()


def _written(run: Described, result: _Result, folder: str) -> tuple[str, ...]:
    """Write the files that start the run as it was found to fit, and return their paths.

    Raises:
        ClickException: nothing fits, nothing can start it so, or the folder takes no files.
    """
    from memlint.parallel.launch_writer import CannotWriteError, launch_files, write_files
    from memlint.parallel.sharding_search import Shared

    assert isinstance(result, Shared)
    if result.chosen is None:
        raise click.ClickException(
            f"nothing is written: no way to share the run fits {result.gpu.name}"
        )
    try:
        files = launch_files(result, folder, run.source if run.script else None)
        return write_files(folder, files)
    except CannotWriteError as error:
        raise click.ClickException(str(error)) from None


def _text(shown: _Shown, assumptions: tuple[str, ...], several: bool) -> str:
    parts = []
    for run, result in shown:
        head = [f"{run.place}: {run.said}"] if several else []
        parts.append("\n".join((*head, *_lines(run, result, assumptions))))
    return "\n\n".join(parts)


def _lines(run: Described, result: _Result, assumptions: tuple[str, ...]) -> Iterable[str]:
    from memlint.memory import Estimate

    if isinstance(result, Estimate):
        from memlint.reports import memory as report

        return [report.as_text(result)]
    from memlint.memory.fit import Fitted
    from memlint.reports import fit_report, sharing_report

    if isinstance(result, Fitted):
        return fit_report.lines(result, run.script, assumptions)
    return sharing_report.lines(result)


def _json(shown: _Shown, several: bool, written: tuple[str, ...]) -> str:
    if not several:
        files = {"written": list(written)} if written else {}
        return json.dumps({**shown[0][1].to_json(), **files}, indent=2)
    runs = [{"place": run.place, "command": run.said, **one.to_json()} for run, one in shown]
    return json.dumps({"runs": runs}, indent=2)
