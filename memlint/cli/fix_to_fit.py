"""``memlint fix --fit``: which fixes make each file's runs fit their GPU."""

import os
from collections.abc import Sequence

import click

from memlint.api.lookup import Api
from memlint.cli.inputs import Usage
from memlint.memory import SettingsError
from memlint.memory.fit import Fitted, Measure, fit, run_of
from memlint.memory.prices import with_pricing
from memlint.project.targets import Targets
from memlint.recipes.document import DocumentError
from memlint.reports import fit_report
from memlint.rule.findings import Applicability
from memlint.run.described import Described, NoRunError, runs_in
from memlint.run.jobs import Job
from memlint.run.runs import Runs
from memlint.source import Source
from memlint.source.diagnostics import ReadError


def jobs_that_fit(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of files that train, with the fixes that make them fit, and print these.

    Raises:
        Usage: no GPU is named.
    """
    targets = Targets()
    runs = Runs(release=targets.release)
    chosen: list[Job] = []
    for job in jobs:
        if job.pricing is None or not job.pricing.gpu:
            raise Usage("--fit needs --gpu NAME, such as rtx4090-24gb")
        one = _with_its_fixes(job, targets, runs)
        if one is not None:
            chosen.append(one)
    return chosen


def _with_its_fixes(job: Job, targets: Targets, runs: Runs) -> Job | None:
    """The job with the fixes that make each run of its file fit; None where nothing trains."""

    def tables(path: str, source: Source | None) -> Api:
        return targets.api(os.path.abspath(path), job.target, source)

    try:
        found = runs_in(job.path, tables, runs)
        fits = [(run, _fitted(job, run)) for run in found]
    except NoRunError:
        return None
    except SettingsError as error:
        click.echo(f"{job.path}: {error}", err=True)
        return None
    except (ReadError, DocumentError, SyntaxError, ValueError):
        return job._replace(only=frozenset())  # what keeps it from being read is said as always
    applied: list[Measure] = []
    for run, one in fits:
        applied += one.applied
        place = run.place if len(fits) > 1 else job.path
        for line in fit_report.lines(one, None):
            click.echo(f"{place}: {line}", err=True)
    unsafe = any(each.kind is Applicability.UNSAFE for each in applied)
    codes = frozenset(code for each in applied for code in each.codes)
    return job._replace(
        only=frozenset(pair for each in applied for pair in each.fixes),
        by_code=job.by_code | codes,
        unsafe_fixes=unsafe,
    )


def _fitted(job: Job, run: Described) -> Fitted:
    assert job.pricing is not None
    assert run.find is not None
    settings = with_pricing(run.settings, job.pricing)
    return fit(run_of(settings), run.find(job.codes, job.runtime))
