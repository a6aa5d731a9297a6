"""``memlint estimate``: show how much GPU memory a run needs, and whether it fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from memlint.cli.runs_of_file import configured, read_json, require_model, runs_of_file
from memlint.rule.savings import Pricing

if TYPE_CHECKING:
    from memlint.memory import Estimate
    from memlint.memory.fit import Fitted
    from memlint.run.described import Described


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
    """Print the estimate of each run and return the exit status: 1 if one does not fit the GPU,
    else 0.

    fit: print instead the fixes that make the run fit.
    """
    runs = runs_of_file(script, settings_file, target)
    if script is not None:
        settings = configured(runs[0].path, target, gpu, assumptions)
        gpu, assumptions = settings.gpu, settings.assume
    if fit and not gpu and not any(run.settings.get("gpu") for run in runs):
        raise click.UsageError("--fit needs --gpu NAME, such as rtx4090-24gb")
    shape = read_json(model_config) if model_config is not None else None
    if shape is not None:
        runs = [run._replace(settings={**run.settings, "model": {"config": shape}}) for run in runs]
    shown = _results(runs, Pricing(gpu or "", assumptions), fit=fit)
    several = len(runs) > 1
    as_text = output_format != "json"
    click.echo(_text(shown, assumptions, several) if as_text else _json(shown, several))
    return 1 if any(result.fits is False for _, result in shown) else 0


def _results(
    runs: list[Described], pricing: Pricing, *, fit: bool
) -> list[tuple[Described, Estimate | Fitted]]:
    """Each run that can be estimated with its result; what keeps others from it is printed.

    Raises:
        ClickException: no run can be estimated.
    """
    shown: list[tuple[Described, Estimate | Fitted]] = []
    failed: list[str] = []
    for run in runs:
        try:
            if run.find is not None:
                require_model(run, pricing.assumptions)
            shown.append((run, _result(run, pricing, fit=fit)))
        except click.ClickException as error:
            failed.append(str(error))
        except ValueError as error:
            failed.append(f"{run.place}: {error}" if len(runs) > 1 else str(error))
    if not shown:
        raise click.ClickException(failed[0])
    for reason in failed:
        click.echo(reason, err=True)
    return shown


def _result(run: Described, pricing: Pricing, *, fit: bool) -> Estimate | Fitted:
    """Raises ``SettingsError``, a ``ValueError``: a setting or the model is not known."""
    from memlint.memory import estimate
    from memlint.memory.prices import with_pricing

    settings = with_pricing(run.settings, pricing)
    if not fit:
        return estimate(settings)
    from memlint.memory.fit import fit as fitted
    from memlint.memory.fit import run_of

    return fitted(run_of(settings), run.find(None, True) if run.find is not None else ())


def _text(
    shown: list[tuple[Described, Estimate | Fitted]], assumptions: tuple[str, ...], several: bool
) -> str:
    from memlint.memory import Estimate
    from memlint.reports import fit_report
    from memlint.reports import memory as report

    parts = []
    for run, result in shown:
        head = [f"{run.place}: {run.said}"] if several else []
        if isinstance(result, Estimate):
            lines = iter([report.as_text(result)])
        else:
            lines = fit_report.lines(result, run.script, assumptions)
        parts.append("\n".join((*head, *lines)))
    return "\n\n".join(parts)


def _json(shown: list[tuple[Described, Estimate | Fitted]], several: bool) -> str:
    if not several:
        return json.dumps(shown[0][1].to_json(), indent=2)
    runs = [{"place": run.place, "command": run.said, **one.to_json()} for run, one in shown]
    return json.dumps({"runs": runs}, indent=2)
