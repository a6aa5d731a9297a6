"""``memlint check``: report findings, and tell by the exit status whether there are any."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TextIO

import click

from memlint.cli.adoption import Chosen, check_adoption, keep, show
from memlint.cli.inputs import (
    Usage,
    colours,
    gather,
    make_cache,
    progress_bar,
    stdin_work,
    tell_pins,
    warn_if_empty,
)
from memlint.cli.options import Adoption, Common
from memlint.project.targets import Targets
from memlint.reports import FORMATS_WITH_FIXES, MACHINE_FORMATS, Report, render, words_of
from memlint.reports.style import visible
from memlint.rule.file_rules import BROKEN_FILE
from memlint.run.checking import check_jobs
from memlint.run.jobs import Job
from memlint.run.results import FileResult
from memlint.run.session import Session
from memlint.source.diagnostics import reason


def check_command(
    paths: tuple[str, ...],
    options: Common,
    *,
    stdin_filename: str | None,
    output_format: str,
    statistics: bool,
    exit_zero: bool,
    fail_level: str,
    adoption: Adoption,
    output_file: str | None = None,
    strict: bool = False,
) -> int:
    """Check the paths, print the report and return the exit status."""
    if statistics and output_format in MACHINE_FORMATS - {"json"}:
        raise Usage(f"--statistics is text or JSON, not {output_format}")
    if output_file is not None and os.path.isdir(output_file):
        raise Usage(f"{output_file}: cannot be written: is a directory")
    check_adoption(adoption)
    show_fixes = output_format in FORMATS_WITH_FIXES and not statistics
    chosen: Chosen | None = None
    jobs: Sequence[Job] = ()
    if paths == ("-",):
        results = _check_stdin(options, adoption, stdin_filename, show_fixes)
    elif "-" in paths or stdin_filename is not None:
        raise Usage("standard input (-) must be the only path")
    else:
        checked = _check_paths(paths, options, adoption, show_fixes)
        if checked is None:
            return 0
        results, chosen, jobs = checked
    if adoption.writes:
        return keep(adoption, results)
    with _output(output_file) as stream:
        if output_format == "html":
            _write_page(stream, results, jobs, options)
        else:
            _write(stream, results, options, output_format, statistics, chosen)
    return _status(results, fail_level, exit_zero, strict)


def _status(results: Sequence[FileResult], fail_level: str, exit_zero: bool, strict: bool) -> int:
    if any(result.diagnostics for result in results):
        return 2
    findings = [finding for result in results for finding in result.findings]
    if strict and any(finding.code == BROKEN_FILE.code for finding in findings):
        return 2
    found = any(finding.fails(fail_level) for finding in findings)
    return 1 if found and not exit_zero else 0


def _check_paths(
    paths: tuple[str, ...], options: Common, adoption: Adoption, show_fixes: bool
) -> tuple[list[FileResult], Chosen, Sequence[Job]] | None:
    """Return what is found below ``paths``, and in which files; None if only these are wanted."""
    with progress_bar(not options.quiet) as progress:
        inputs = gather(paths, options, progress)
        warn_if_empty(inputs, paths)
        if show(adoption, inputs.settings, inputs.jobs):
            return None
        chosen = Chosen(adoption, inputs.settings)
        results = check_jobs(
            chosen.jobs(inputs.jobs),
            show_fixes=show_fixes,
            cache=make_cache(inputs, options),
            progress=progress,
        )
    results += [FileResult(each.path, diagnostics=(each,)) for each in inputs.diagnostics]
    if options.verbose:
        _tell_targets(inputs.jobs)
    else:
        tell_pins(inputs.jobs, {each.path for each in results if each.findings})
    return chosen.results(results), chosen, inputs.jobs


def _check_stdin(
    options: Common, adoption: Adoption, filename: str | None, show_fixes: bool
) -> list[FileResult]:
    if adoption != Adoption():
        raise Usage("standard input (-) has no baseline, no history and no files")
    (job, data), excluded = stdin_work(options, filename)
    return [] if excluded else [Session(show_fixes).check(job, data)]


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Take the report, and put it into its file once it is whole; standard output by default."""
    if path is None or path == "-":
        yield sys.stdout
        return
    from memlint.fix.atomic import put

    taken = StringIO(newline="")
    yield taken
    try:
        put(path, taken.getvalue().encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise Usage(f"{path}: cannot be written: {reason(error)}") from None


def _write_page(
    stream: TextIO, results: list[FileResult], jobs: Sequence[Job], options: Common
) -> None:
    from memlint.page import page
    from memlint.reports.readable import diagnostic_line
    from memlint.reports.style import Style

    stream.writelines(page(results, jobs, options.target))
    for error in (each for result in results for each in result.diagnostics):
        click.echo(diagnostic_line(error, Style(False)), err=True)


def _write(
    stream: TextIO,
    results: list[FileResult],
    options: Common,
    output_format: str,
    statistics: bool,
    chosen: Chosen | None,
) -> None:
    for_people = output_format not in MACHINE_FORMATS
    codes = sorted({finding.code for result in results for finding in result.findings})
    words = words_of(codes) if output_format == "sarif" and not statistics else {}
    report = Report(results, words, for_people and colours(options.colour, stream))
    if statistics:
        from memlint.reports.statistics import render_statistics

        pieces: Iterable[str] = render_statistics(report, as_json=output_format == "json")
    else:
        pieces = render(output_format, report)
    stream.writelines(pieces)
    if for_people and not options.quiet:
        from memlint.reports.readable import summary

        stream.writelines(summary(report))
        stream.write(chosen.summary() if chosen is not None else "")


def _tell_targets(jobs: Sequence[Job]) -> None:
    """Print the versions that the files were checked for, each set of versions once."""
    from memlint.cli.target import describe

    targets = Targets()
    for target in {
        str(each): each for each in (targets.of(job.place, job.target) for job in jobs)
    }.values():
        for line in describe(target):
            click.echo(visible(line), err=True)
