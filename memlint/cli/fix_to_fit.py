"""``memlint fix --fit``: which fixes make each script's run fit its GPU."""

from __future__ import annotations

from collections.abc import Sequence

import click

from memlint.cli.inputs import Usage
from memlint.memory import SettingsError
from memlint.project.targets import Targets
from memlint.reports import fit_report
from memlint.rule.findings import Applicability
from memlint.run.engine import read_script
from memlint.run.jobs import Job
from memlint.run.whole import fit_source, options_around
from memlint.runs.run_settings import settings_of
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source


def jobs_that_fit(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of scripts that train, with the fixes that make them fit, and print these.

    Raises:
        Usage: no GPU is named.
    """
    targets = Targets()
    chosen: list[Job] = []
    for job in jobs:
        if job.pricing is None or not job.pricing.gpu:
            raise Usage("--fit needs --gpu NAME, such as rtx4090-24gb")
        one = _with_its_fixes(job, targets)
        if one is not None:
            chosen.append(one)
    return chosen


def _with_its_fixes(job: Job, targets: Targets) -> Job | None:
    assert job.pricing is not None
    try:
        source = read_source(job.path)
        api = targets.api(job.place, job.target, source)
        around = options_around(job.place, source.data)
        values = settings_of(read_script(source, api, around))
        if values is None:
            return None
        fitted = fit_source(
            source, api, values, job.pricing, around=around, codes=job.codes, runtime=job.runtime
        )
    except SettingsError as error:
        click.echo(f"{job.path}: {error}", err=True)
        return None
    except (ReadError, SyntaxError, ValueError):
        return job._replace(only=frozenset())  # what keeps it from being read is said as always
    for line in fit_report.lines(fitted, None):
        click.echo(f"{job.path}: {line}", err=True)
    unsafe = any(each.kind is Applicability.UNSAFE for each in fitted.applied)
    codes = frozenset(code for each in fitted.applied for code in each.codes)
    return job._replace(
        only=frozenset(pair for each in fitted.applied for pair in each.fixes),
        by_code=job.by_code | codes,
        unsafe_fixes=unsafe,
    )
