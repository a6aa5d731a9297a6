"""``memlint fix --fit``: which fixes make each file's runs fit their GPU, or several that share
them."""

from collections.abc import Sequence

import click

from memlint.cli.inputs import Usage
from memlint.cli.options import Machine
from memlint.memory import SettingsError
from memlint.memory.fit import Measure, fit, measure_of_batch, run_of
from memlint.memory.settings import with_pricing
from memlint.project.targets import Targets
from memlint.recipes.document import DocumentError
from memlint.reports import fit_report
from memlint.rule.findings import Applicability
from memlint.run.described import NoRunError, runs_in
from memlint.run.description import Described
from memlint.run.jobs import Job
from memlint.run.runs import Runs
from memlint.source.diagnostics import ReadError


def jobs_that_fit(jobs: Sequence[Job], machine: Machine) -> list[Job]:
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
        one = _with_its_fixes(job, targets, runs, machine)
        if one is not None:
            chosen.append(one)
    return chosen


def _with_its_fixes(job: Job, targets: Targets, runs: Runs, machine: Machine) -> Job | None:
    """The job with the fixes that make each run of its file fit; None where nothing trains."""
    try:
        found = runs_in(job.path, targets.tables(job.target), runs)
        fits = [(run, *_fitted(job, run, machine)) for run in found]
    except NoRunError:
        return None
    except SettingsError as error:
        click.echo(f"{job.path}: {error}", err=True)
        return None
    except (ReadError, DocumentError, SyntaxError, ValueError):
        return job._replace(only=frozenset())  # what keeps it from being read is said as always
    applied: list[Measure] = []
    for run, measures, lines in fits:
        applied += measures
        place = run.place if len(fits) > 1 else job.path
        for line in lines:
            click.echo(f"{place}: {line}" if line else "", err=True)
    unsafe = any(each.kind is Applicability.UNSAFE for each in applied)
    codes = frozenset(code for each in applied for code in each.codes)
    return job._replace(
        only=frozenset(pair for each in applied for pair in each.fixes),
        by_code=job.by_code | codes,
        unsafe_fixes=unsafe,
    )


def _fitted(job: Job, run: Described, machine: Machine) -> tuple[Sequence[Measure], Sequence[str]]:
    """Return the fixes that are applied, and what is said of them."""
    assert job.pricing is not None
    assert run.find is not None
    settings = with_pricing(run.settings, job.pricing)
    findings = run.find(job.codes, job.runtime)
    if machine.gpus == 1:
        one = fit(run_of(settings), findings, machine.host)
        return one.applied, tuple(fit_report.lines(one, None))
    from memlint.parallel.sharding_search import share
    from memlint.reports import sharing_report

    shared = share(settings, findings, machine.gpus, machine.host)
    found = [*sharing_report.lines(shared)]
    best = shared.chosen
    if best is None:
        return (), found
    batch = measure_of_batch(findings, best.micro_batch, best.accumulation)
    measures = [*shared.fixes, *([batch] if batch is not None else ())]
    hand = [each.message for each in measures if each.kind is Applicability.DISPLAY]
    if batch is None and best.micro_batch != shared.known.micro_batch:
        hand.append(f"forward {best.micro_batch} rows at once, {best.accumulation} times a step")
    words = f"--gpus {machine.gpus} --gpu {shared.gpu.name} --write-launch launch"
    hand.append(f"start it as `memlint estimate --fit {words} {job.path}` writes it")
    applied = [each for each in measures if each.kind is not Applicability.DISPLAY]
    return applied, [*found, f"by hand: {'; '.join(hand)}"]
