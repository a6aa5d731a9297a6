"""``memlint check``: report findings, and tell by the exit status whether there are any."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from memlint.cli.inputs import (
    Usage,
    colours,
    gather,
    make_cache,
    progress_bar,
    stdin_work,
    warn_if_empty,
)
from memlint.cli.options import Common
from memlint.project.targets import Targets
from memlint.reports import FORMATS_WITH_FIXES, MACHINE_FORMATS, Report, render, words_of
from memlint.reports.style import visible
from memlint.run.checking import check_jobs
from memlint.run.jobs import Job
from memlint.run.results import FileResult
from memlint.run.session import Session


def check_command(
    paths: tuple[str, ...],
    options: Common,
    *,
    stdin_filename: str | None,
    output_format: str,
    statistics: bool,
    exit_zero: bool,
    fail_level: str,
) -> int:
    """Check the paths, print the report and return the exit status."""
    if statistics and output_format in ("sarif", "github", "gitlab"):
        raise Usage(f"--statistics is text or JSON, not {output_format}")
    show_fixes = output_format in FORMATS_WITH_FIXES and not statistics
    if paths == ("-",):
        results = _check_stdin(options, stdin_filename, show_fixes)
    elif "-" in paths or stdin_filename is not None:
        raise Usage("standard input (-) must be the only path")
    else:
        with progress_bar(not options.quiet) as progress:
            inputs = gather(paths, options, progress)
            warn_if_empty(inputs, paths)
            results = check_jobs(
                inputs.jobs,
                show_fixes=show_fixes,
                cache=make_cache(inputs, options),
                progress=progress,
            )
        results += [FileResult(each.path, diagnostics=(each,)) for each in inputs.diagnostics]
        if options.verbose:
            _tell_targets(inputs.jobs)
    _write(results, options, output_format, statistics)
    if any(result.diagnostics for result in results):
        return 2
    found = any(finding.fails(fail_level) for result in results for finding in result.findings)
    return 1 if found and not exit_zero else 0


def _check_stdin(options: Common, filename: str | None, show_fixes: bool) -> list[FileResult]:
    (job, data), excluded = stdin_work(options, filename)
    return [] if excluded else [Session(show_fixes).check(job, data)]


def _write(
    results: list[FileResult], options: Common, output_format: str, statistics: bool
) -> None:
    for_people = output_format not in MACHINE_FORMATS
    codes = sorted({finding.code for result in results for finding in result.findings})
    words = words_of(codes) if output_format == "sarif" and not statistics else {}
    report = Report(results, words, for_people and colours(options.colour, sys.stdout))
    if statistics:
        from memlint.reports.statistics import render_statistics

        pieces: Iterable[str] = render_statistics(report, as_json=output_format == "json")
    else:
        pieces = render(output_format, report)
    for piece in pieces:
        sys.stdout.write(piece)
    if for_people and not options.quiet:
        from memlint.reports.readable import summary

        for line in summary(report):
            sys.stdout.write(line)


def _tell_targets(jobs: Sequence[Job]) -> None:
    """Print the versions that the files were checked for, each set of versions once."""
    from memlint.cli.target import describe

    targets = Targets()
    for target in {
        str(each): each for each in (targets.of(job.place, job.target) for job in jobs)
    }.values():
        for line in describe(target):
            click.echo(visible(line), err=True)
