"""The command of ``tests.two_steps``; see the package's docstring."""

from __future__ import annotations

import functools
import multiprocessing
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from tests.two_steps.child import import_libraries
from tests.two_steps.jobs import LIST, Job, read_jobs
from tests.two_steps.stages import Run, Settings, broken, losses_agree, run_job


def _all_of(job: Job, settings: Settings) -> tuple[dict[str, Run], bool | None]:
    runs = run_job(job, settings)
    return runs, losses_agree(job, runs, settings)


def _word(run: Run) -> str:
    if not run.two_steps:
        return "FAILED"
    return "ran" if run.ok else "ran, then failed"


def _report(job: Job, runs: dict[str, Run], agree: bool | None, show: bool) -> None:
    words = [f"{name} {_word(run)} ({run.steps} steps)" for name, run in runs.items()]
    words.append({None: "no losses to compare", True: "same losses", False: "LOSSES DIFFER"}[agree])
    click.echo(f"{job.name}: {', '.join(words)}")
    for name, run in runs.items():
        if not run.ok:
            click.echo(f"    {name}: {run.source}\n        {run.error}\n        {run.deepest}")
            if show:
                click.echo(run.text)
    if agree is False:
        click.echo(f"    {runs['before'].losses}\n    {runs['safe'].losses}")


@click.command()
@click.argument("checkouts", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--list", "listed", default=LIST, type=click.Path(exists=True, path_type=Path))
@click.option("--only", multiple=True, help="Scripts whose name holds this.")
@click.option("--timeout", default=240, help="Seconds for one run.")
@click.option("--workers", default=2)
@click.option("--show", is_flag=True, help="Print the fixed text of scripts that fail.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=Path(tempfile.gettempdir()) / "memlint-two-steps",
    help="Where results of runs are kept.",
)
def main(
    checkouts: Path, listed: Path, only: tuple[str, ...], timeout: int, workers: int, show: bool,
    cache: Path,
) -> None:  # fmt: skip
    """Run the scripts of scripts.toml below CHECKOUTS before and after their fixes."""
    chosen = read_jobs(listed, only)
    import_libraries()
    settings = Settings(checkouts.resolve(), cache.resolve(), timeout)
    counts: Counter[str] = Counter()
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        every = pool.imap(functools.partial(_all_of, settings=settings), chosen)
        for job, (runs, agree) in zip(chosen, every, strict=True):
            _report(job, runs, agree, show)
            sys.stdout.flush()
            counts.update(f"{name} ran" for name, run in runs.items() if run.two_steps)
            fixed = [run for name, run in runs.items() if name != "before"]
            counts["after both fixes"] += all(run.two_steps for run in fixed)
            counts["broken"] += any(broken(runs["before"], run) for run in fixed)
            counts["losses agree"] += agree is True
            counts["losses differ"] += agree is False
    click.echo(f"scripts: {len(chosen)}, {', '.join(f'{k}: {v}' for k, v in counts.items())}")
    sys.exit(1 if counts["broken"] or counts["losses differ"] else 0)


if __name__ == "__main__":
    main()
