"""``memlint fix``: apply what can be applied, say what was done and what is left."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial

import click

from memlint.cli.inputs import (
    Usage,
    colours,
    gather,
    make_cache,
    progress_bar,
    stdin_job,
    warn_if_empty,
)
from memlint.cli.options import Common
from memlint.project.targets import Targets
from memlint.reports.style import Style
from memlint.reports.text import diagnostic_line, plural
from memlint.rule import registry as rules
from memlint.run.checking import check_jobs
from memlint.run.engine import check_file
from memlint.run.fixing import Change, candidates, fix_file, fix_jobs
from memlint.run.results import Shown
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.reading import read_bytes


def fix_command(
    paths: tuple[str, ...],
    options: Common,
    *,
    stdin_filename: str | None,
    unsafe: bool | None,
    diff: bool,
    only_check: bool,
    exit_zero: bool,
) -> int:
    """Fix and tell; the exit status."""
    if paths == ("-",):
        return _fix_stdin(options, stdin_filename, unsafe, diff, only_check, exit_zero)
    if "-" in paths or stdin_filename is not None:
        raise Usage("standard input (-) is the only path, or none of them")
    inputs = gather(paths, options)
    warn_if_empty(inputs, paths)
    jobs = inputs.jobs
    if unsafe is not None:
        jobs = [job._replace(unsafe_fixes=unsafe) for job in jobs]
    diagnostics = list(inputs.diagnostics)
    with progress_bar(not options.quiet) as progress:
        results = check_jobs(jobs, cache=make_cache(inputs, options), progress=progress)
    for result in results:
        diagnostics += result.diagnostics

    to_fix = candidates(jobs, results)
    changed: list[Change] = []
    left = [
        finding
        for index, result in enumerate(results)
        if index not in set(to_fix)
        for finding in result.findings
    ]
    out, err = _styles(options)
    changes = fix_jobs([jobs[index] for index in to_fix])
    with progress_bar(not options.quiet) as progress:
        progress.start(len(to_fix))
        for change in changes:
            progress.step()
            if change.after != change.before and not (diff or only_check):
                problem = _write(change)
                if problem is not None:
                    diagnostics.append(problem)
                    continue
            diagnostics += change.diagnostics
            left += change.left
            if change.after != change.before:
                changed.append(change)
                _tell_change(change, diff, only_check, options.quiet, out)
            for finding, reason in change.refused:
                click.echo(f"{_place(finding)}: {finding.code} was not fixed: {reason}", err=True)
    for diagnostic in diagnostics:
        click.echo(diagnostic_line(diagnostic, err), err=True)
    if not options.quiet:
        _tell_sum(changed, left, writes=not (diff or only_check))
    return _status(diagnostics, changed, left, diff, only_check, exit_zero)


def _fix_stdin(
    options: Common,
    filename: str | None,
    unsafe: bool | None,
    diff: bool,
    only_check: bool,
    exit_zero: bool,
) -> int:
    """Standard input to standard output: the fixed script, or the diff."""
    job, data, _ = stdin_job(options, filename)
    if unsafe is not None:
        job = job._replace(unsafe_fixes=unsafe)
    targets = Targets()
    change = fix_file(job, data, targets)
    # What does not parse has no fixes; why is the check's to say.
    checked = check_file(
        job.path,
        data,
        rules.load(job.codes),
        partial(targets.api, job.path, job.target),
        named=True,
    )
    diagnostics = [*checked.diagnostics, *change.diagnostics]
    out, err = _styles(options)
    if diff:
        sys.stdout.write(_coloured(change.patch, out))
    elif not only_check:
        sys.stdout.flush()
        sys.stdout.buffer.write(data if diagnostics else change.after)
    for diagnostic in diagnostics:
        click.echo(diagnostic_line(diagnostic, err), err=True)
    changed = [change] if change.after != change.before else []
    if not options.quiet:
        _tell_sum(changed, change.left, writes=not (diff or only_check))
    return _status(diagnostics, changed, change.left, diff, only_check, exit_zero)


def _write(change: Change) -> FileError | None:
    """Write one file; what kept it from being written, if something did."""
    from memlint.fix import write_atomically

    try:
        if read_bytes(change.path) != change.before:
            return FileError(change.path, "changed while it was being fixed; left as it is")
        write_atomically(change.path, change.after)
    except ReadError as error:
        return error.diagnostic
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return FileError(change.path, f"could not be written: {reason}; left as it was")
    return None


def _tell_change(change: Change, diff: bool, only_check: bool, quiet: bool, out: Style) -> None:
    if diff:
        sys.stdout.write(_coloured(change.patch, out))
        return
    if quiet:
        return
    verb = "would fix" if only_check else "fixed"
    click.echo(f"{out(change.path, 'bold')}: {verb} {plural(len(change.fixed), 'finding')}")
    what = Counter(
        (finding.code, finding.fix.message if finding.fix else "") for finding in change.fixed
    )
    for (code, message), count in what.items():
        times = f" ({count} times)" if count > 1 else ""
        click.echo(f"    {out(code, 'bold', 'cyan')} {message}{times}")


def _tell_sum(changed: Sequence[Change], left: Sequence[Shown], *, writes: bool) -> None:
    """On standard error: standard output may be a patch or a script."""
    fixed = sum(len(change.fixed) for change in changed)
    counted = sum(finding.counts for finding in left)
    unsafe = sum(
        finding.counts and finding.fix is not None and finding.fix.applicability == "unsafe"
        for finding in left
    )
    verb = "Fixed" if writes else "Would fix"
    if changed:
        text = f"{verb} {plural(fixed, 'finding')} in {plural(len(changed), 'file')}"
    else:
        text = "Nothing to fix"
    if counted:
        text += f"; {plural(counted, 'finding')} {'remains' if counted == 1 else 'remain'}"
    if unsafe:
        text += f", {unsafe} fixable with `--unsafe-fixes`"
    click.echo(f"{text}.", err=True)
    if counted and writes:
        click.echo("`memlint check` shows what remains.", err=True)


def _status(
    diagnostics: Sequence[FileError],
    changed: Sequence[Change],
    left: Sequence[Shown],
    diff: bool,
    only_check: bool,
    exit_zero: bool,
) -> int:
    if diagnostics:
        return 2
    if exit_zero:
        return 0
    if only_check:
        return 1 if changed else 0
    if diff:
        return 0
    return 1 if any(finding.counts for finding in left) else 0


def _styles(options: Common) -> tuple[Style, Style]:
    """For standard output and for standard error."""
    return (
        Style(colours(options.colour, sys.stdout)),
        Style(colours(options.colour, sys.stderr)),
    )


def _coloured(patch: str, style: Style) -> str:
    lines = []
    for line in patch.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        end = line[len(body) :]
        if body.startswith(("---", "+++")):
            body = style(body, "bold")
        elif body.startswith("@@"):
            body = style(body, "cyan")
        elif body.startswith("-"):
            body = style(body, "red")
        elif body.startswith("+"):
            body = style(body, "green")
        lines.append(body + end)
    return "".join(lines)


def _place(finding: Shown) -> str:
    from memlint.reports.text import finding_place

    return finding_place(finding)
