"""``memlint estimate``: show how much GPU memory a run needs, and whether it fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memlint.api import Api
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
    if fit:
        return _fit(script, settings_file, gpu, assumptions, model_config, target, output_format)
    from memlint.memory import (
        SettingsError,
        estimate,
        parse_assumption,
        read_settings,
        with_assumption,
    )
    from memlint.reports import memory as report

    try:
        values = _values(script, settings_file, target)
        if gpu is not None:
            values["gpu"] = gpu
        if model_config is not None:
            values["model"] = {"config": _read_json(model_config)}
        _named(values, script, assumptions)
        extra = [parse_assumption(text) for text in assumptions]
        for key, value in extra:
            if key == "model":
                values["model"] = value
        settings = read_settings(values)
        for key, value in extra:
            settings = with_assumption(settings, key, value)
        result = estimate(settings)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report.as_json(result) if output_format == "json" else report.as_text(result))
    return 1 if result.fits is False else 0


def _fit(
    script: str | None,
    settings_file: str | None,
    gpu: str | None,
    assumptions: tuple[str, ...],
    model_config: str | None,
    target: str | None,
    output_format: str,
) -> int:
    """Print the smallest set of fixes that makes the run fit; return 0 if there is one, else 1."""
    from memlint.memory import SettingsError
    from memlint.memory.fit import fit
    from memlint.memory.prices import with_pricing
    from memlint.reports import fit_report
    from memlint.rule.savings import Pricing
    from memlint.run.whole import fit_source, options_around, run_of

    pricing = Pricing(gpu or "", assumptions)
    try:
        values = _values(script, settings_file, target)
        if model_config is not None:
            values["model"] = {"config": _read_json(model_config)}
        _named(values, script, assumptions)
        if gpu is None and not values.get("gpu"):
            raise click.UsageError("--fit needs --gpu NAME, such as rtx4090-24gb")
        if script is None:
            fitted = fit(run_of(with_pricing(values, pricing)), ())
        else:
            source, api = _source(script, target)
            around = options_around(script, source.data)
            fitted = fit_source(source, api, values, pricing, around=around)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    if output_format == "json":
        click.echo(json.dumps(fitted.to_json(), indent=2))
    else:
        click.echo("\n".join(fit_report.lines(fitted, script, assumptions)))
    return 0 if fitted.fits else 1


def _values(script: str | None, settings_file: str | None, target: str | None) -> dict[str, Any]:
    """Return the settings of a JSON file or a script, as JSON values."""
    if settings_file is not None:
        if script is not None:
            raise click.UsageError("give a SCRIPT or --settings, not both")
        return _read_json(settings_file)
    if script is None:
        raise click.UsageError("give a SCRIPT, or --settings FILE.json")
    return _from_script(script, target)


def _source(path: str, target: str | None) -> tuple[Source, Api]:
    """Return the script and the tables of its library versions."""
    from memlint.project.targets import Targets
    from memlint.recipes.files import is_recipe_file
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read_source

    if is_recipe_file(path):
        said = "is no Python script: give the one that trains, or the run as --settings FILE.json"
        raise click.ClickException(f"{path} {said}")
    try:
        return read_source(path), Targets().api(path, target or "")
    except ReadError as error:
        raise click.ClickException(f"{path} {error.diagnostic.message}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _from_script(path: str, target: str | None) -> dict[str, Any]:
    from memlint.memory.from_script import settings_of
    from memlint.run.deep import deeply
    from memlint.run.whole import script_around

    source, api = _source(path, target)
    try:
        script = deeply(lambda: script_around(source, path, api))
    except SyntaxError as error:
        raise click.ClickException(f"{path} does not parse: {error}") from None
    values = settings_of(script)
    if values is None:
        raise click.ClickException(
            f"{path} trains nothing that memlint recognizes: describe the run with "
            "--settings FILE.json"
        )
    if not values.get("model"):
        values.pop("model", None)
    return values


def _named(values: dict[str, Any], script: str | None, assumptions: tuple[str, ...]) -> None:
    """Raises: a script's model is not known, and nobody names it."""
    named = "model" in values or any(text.startswith("model=") for text in assumptions)
    if script is not None and not named:
        raise click.ClickException(
            f"{script} does not say which model it trains: name one with --assume model=NAME (a"
            " hub name or a path), or give its config.json with --model-config PATH"
        )


def _read_json(path: str) -> dict[str, Any]:
    import sys

    from memlint.source.bounded import parse_json, read_named, read_stream

    try:
        data = read_stream(sys.stdin.buffer) if path == "-" else read_named(path)[0]
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise click.ClickException(f"{path} cannot be read: {reason}") from None
    try:
        values = parse_json(text)
    except ValueError as error:
        raise click.ClickException(f"{path} is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise click.ClickException(f"{path} holds no JSON object of settings")
    return values
