"""``memlint estimate``: show how much GPU memory a run needs, and whether it fits."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.project.config import Settings
    from memlint.source import Source


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
) -> int:
    """Print the estimate and return the exit status: 1 if the run does not fit the GPU, else 0.

    fit: print instead the fixes that make the run fit.
    """
    from memlint.memory import SettingsError, estimate
    from memlint.memory.settings import read_with
    from memlint.reports import memory as report

    try:
        values = _values(script, settings_file, target)
        if script is not None:
            settings = _configured(script, target, gpu, assumptions)
            gpu, assumptions = settings.gpu, settings.assume
        if model_config is not None:
            values["model"] = {"config": _read_json(model_config)}
        _named(values, script, assumptions)
        if fit:
            return _fit(values, script, gpu or "", assumptions, target, output_format)
        result = estimate(read_with(values, gpu or "", assumptions))
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report.as_json(result) if output_format == "json" else report.as_text(result))
    return 1 if result.fits is False else 0


def _fit(
    values: dict[str, Any],
    script: str | None,
    gpu: str,
    assumptions: tuple[str, ...],
    target: str | None,
    output_format: str,
) -> int:
    """Print the smallest set of fixes that makes the run fit; return 0 if there is one, else 1."""
    from memlint.memory.fit import fit
    from memlint.memory.prices import with_pricing
    from memlint.reports import fit_report
    from memlint.rule.savings import Pricing
    from memlint.run.whole import fit_source, options_around, run_of

    pricing = Pricing(gpu, assumptions)
    if not gpu and not values.get("gpu"):
        raise click.UsageError("--fit needs --gpu NAME, such as rtx4090-24gb")
    if script is None:
        fitted = fit(run_of(with_pricing(values, pricing)), ())
    else:
        source, api = script_and_tables(script, target)
        around = options_around(script, source.data)
        fitted = fit_source(source, api, values, pricing, around=around)
    if output_format == "json":
        click.echo(json.dumps(fitted.to_json(), indent=2))
    else:
        click.echo("\n".join(fit_report.lines(fitted, script, assumptions)))
    return 0 if fitted.fits else 1


def _values(script: str | None, settings_file: str | None, target: str | None) -> dict[str, Any]:
    """Return the settings of a JSON file or a script, as JSON values."""
    from memlint.run.deep import deeply
    from memlint.run.whole import script_around
    from memlint.runs.run_settings import settings_of

    if settings_file is not None and script is None:
        return _read_json(settings_file)
    if script is None or settings_file is not None:
        raise click.UsageError("give a SCRIPT, or --settings FILE.json, and not both")
    source, api = script_and_tables(script, target)
    try:
        values = settings_of(deeply(lambda: script_around(source, script, api)))
    except SyntaxError as error:
        raise click.ClickException(f"{script} does not parse: {error}") from None
    if values is None:
        raise click.ClickException(
            f"{script} trains nothing that memlint recognizes: describe the run with "
            "--settings FILE.json"
        )
    if not values.get("model"):
        values.pop("model", None)
    return values


def _configured(
    path: str, target: str | None, gpu: str | None = None, assumptions: tuple[str, ...] = ()
) -> Settings:
    """Return the configuration of the script at ``path``, overridden by the command line."""
    from memlint.project.config import nearest, override

    settings = nearest(os.path.dirname(os.path.abspath(path)))
    return override(settings, target=target, gpu=gpu, assume=assumptions)


def script_and_tables(path: str, target: str | None) -> tuple[Source, Api]:
    """Return the script and the tables of its library versions."""
    from memlint.project.targets import Targets
    from memlint.recipes.files import is_recipe_file
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read_source

    if is_recipe_file(path):
        said = "is no Python script: give the one that trains, or the run as --settings FILE.json"
        raise click.ClickException(f"{path} {said}")
    try:
        source = read_source(path)
        return source, Targets().api(path, _configured(path, target).target, source)
    except ReadError as error:
        raise click.ClickException(f"{path} {error.diagnostic.message}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _named(values: dict[str, Any], script: str | None, assumptions: tuple[str, ...]) -> None:
    """Raises: a script's model is not known, and nobody names it."""
    named = "model" in values or any(text.startswith("model=") for text in assumptions)
    if script is not None and not named:
        raise click.ClickException(
            f"{script} does not say which model it trains: name one with --assume model=NAME (a"
            " hub name or a path), or give its config.json with --model-config PATH"
        )


def read_named_or_stdin(path: str, most: int = 0) -> bytes:
    """Return what a file holds, or standard input where the path is ``-``."""
    import sys

    from memlint.source.bounded import LIMIT, read_named, read_stream

    most = most or LIMIT
    try:
        return read_stream(sys.stdin.buffer, most) if path == "-" else read_named(path, most)[0]
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror or error}") from None


def _read_json(path: str) -> dict[str, Any]:
    from memlint.source.bounded import parse_json

    data = read_named_or_stdin(path)
    try:
        values = parse_json(data.decode("utf-8"))
    except ValueError as error:
        raise click.ClickException(f"{path} is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise click.ClickException(f"{path} holds no JSON object of settings")
    return values
