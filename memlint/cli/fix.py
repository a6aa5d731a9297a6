"""``memlint fix``: apply fixes, and report what was done and what remains."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

import click

from memlint.cli.inputs import (
    Inputs,
    Usage,
    colours,
    gather,
    make_cache,
    progress_bar,
    stdin_work,
    tell_pins,
    warn_if_empty,
)
from memlint.cli.interrupts import Interrupted, end_cleanly
from memlint.cli.options import Common, Machine
from memlint.reports.readable import diagnostic_line, finding_place, headline, plural
from memlint.reports.style import Style, shown_path, visible
from memlint.rule.file_rules import BROKEN_FILE
from memlint.run.cache import Cache
from memlint.run.checking import check_jobs, fix_jobs
from memlint.run.results import FixResult, Rendered
from memlint.run.session import Session
from memlint.source.diagnostics import FileError, reason
from memlint.source.reading import Stamp
from memlint.source.record import NamedTuple


class Mode(NamedTuple):
    """What ``fix`` does with a change, and which findings set its exit status.

    output_format: in which what remains is written to standard output; ``text`` writes what was
    done instead.
    """

    diff: bool
    only_check: bool
    exit_zero: bool
    fail_level: str
    exit_non_zero_on_fix: bool = False
    output_format: str = "text"

    def check(self, paths: tuple[str, ...]) -> None:
        """Raise Usage where a report would share standard output with something else."""
        if self.output_format != "text" and (self.diff or "-" in paths):
            other = "a script" if "-" in paths else "a diff"
            raise Usage(f"standard output is {other}: no --output-format {self.output_format}")

    @property
    def writes(self) -> bool:
        return not (self.diff or self.only_check)


def fix_command(
    paths: tuple[str, ...],
    options: Common,
    *,
    stdin_filename: str | None,
    unsafe: bool | None,
    mode: Mode,
    fit: Machine | None = None,
) -> int:
    """Fix, report and return the exit status. fit: apply only what makes each run fit this."""
    mode.check(paths)
    if paths == ("-",):
        if fit:
            raise Usage("--fit takes scripts, not standard input")
        return _fix_stdin(options, stdin_filename, unsafe, mode)
    if "-" in paths or stdin_filename is not None:
        raise Usage("standard input (-) must be the only path")
    tally = _Tally(mode, options)
    if mode.writes:
        end_cleanly()
    with progress_bar(not options.quiet) as progress:
        inputs = gather(paths, options, progress)
        warn_if_empty(inputs, paths)
        tally.diagnostics += inputs.diagnostics
        jobs = inputs.jobs
        if unsafe is not None:
            jobs = [job._replace(unsafe_fixes=unsafe) for job in jobs]
        if fit:
            from memlint.cli.fix_to_fit import jobs_that_fit

            jobs = jobs_that_fit(jobs, fit)
        cache = None if fit else make_cache(inputs, options)
        try:
            for result in fix_jobs(jobs, cache=cache, progress=progress):
                tally.take(result)
        except KeyboardInterrupt:
            if mode.writes:
                raise Interrupted from None
            raise
    found = {result.path for result in tally.changed} | {finding.path for finding in tally.left}
    tell_pins(jobs, found)
    _report_what_remains(mode.output_format, inputs, cache)
    return tally.close(paths, unsafe)


class _Tally:
    """Writes and reports files one by one, and keeps what the summary needs.

    changed: the files that were changed, or would be. unwritten: those whose fixes could not be
    written. left: the findings that remain. tried: the files for which versions were assumed.
    """

    def __init__(self, mode: Mode, options: Common) -> None:
        self.diagnostics: list[FileError] = []
        self.changed: list[FixResult] = []
        self.unwritten: list[FixResult] = []
        self.left: list[Rendered] = []
        self.tried: list[FixResult] = []
        self._written: set[tuple[int, int]] = set()
        self._mode, self._quiet = mode, options.quiet
        self.out, self._err = (
            Style(colours(options.colour, each)) for each in (sys.stdout, sys.stderr)
        )

    def take(self, result: FixResult) -> None:
        """Write what was fixed in a file, and report it."""
        self.diagnostics += result.diagnostics
        if result.checked.assumed:
            self.tried.append(result)
        if result.after is not None and self._mode.writes:
            if _is_another_name(result, self._written):
                return
            problem = _write(result, result.after, self._written)
            if problem is not None:
                self.diagnostics.append(problem)
                self.unwritten.append(result)
                self.left += result.checked.findings
                return
        self.keep(result)
        if result.after is not None:
            _report_change(result, self._mode, self._quiet, self.out)
        for finding, why in result.refused:
            where = f"{finding_place(finding)}: {finding.code}"
            click.echo(f"{where} was not fixed: {visible(why)}", err=True)

    def keep(self, result: FixResult) -> None:
        """Keep what the summary needs, and report where a file does not parse."""
        self.left += result.left
        if result.after is not None:
            self.changed.append(result)
        for finding in result.left:
            if finding.code == BROKEN_FILE.code:
                where = finding_place(finding)
                click.echo(f"{where}: {headline(finding, self._err)}", err=True)

    def close(self, paths: tuple[str, ...], unsafe: bool | None) -> int:
        """Report what could not be read or written, and the summary; return the exit status."""
        for diagnostic in self.diagnostics:
            click.echo(diagnostic_line(diagnostic, self._err), err=True)
        mode = self._mode
        if not self._quiet:
            _report_withheld(self.tried, paths, unsafe)
            _report_sum(self.changed, self.left, self.unwritten, writes=mode.writes)
            _report_conditions(self.changed, self.tried)
        if self.diagnostics:
            return 2
        if mode.exit_zero:
            return 0
        if mode.exit_non_zero_on_fix and self.changed:
            return 1
        if mode.only_check:
            return 1 if self.changed else 0
        if mode.diff:
            return 0
        return 1 if any(finding.fails(mode.fail_level) for finding in self.left) else 0


def _fix_stdin(options: Common, filename: str | None, unsafe: bool | None, mode: Mode) -> int:
    """Read standard input, and write the fixed script or the diff to standard output."""
    work, excluded = stdin_work(options, filename)
    if excluded:
        if mode.writes:
            _write_bytes(work.data)
        return 0
    job, data = work
    if unsafe is not None:
        job = job._replace(unsafe_fixes=unsafe)
    result = Session().fix(job, data)
    tally = _Tally(mode, options)
    if mode.diff:
        sys.stdout.write(_coloured(result.patch, tally.out))
    elif mode.writes:
        _write_bytes(data if result.diagnostics or result.after is None else result.after)
    tally.keep(result)
    tally.diagnostics += result.diagnostics
    tally.tried.append(result)
    return tally.close(("-",), unsafe)


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def _file(stamp: Stamp | None) -> tuple[int, int] | None:
    return (stamp.device, stamp.inode) if stamp is not None else None


def _is_another_name(result: FixResult, written: set[tuple[int, int]]) -> bool:
    """True if the path is a link to a file that was fixed in this run under another name."""
    if _file(result.stamp) not in written:
        return False
    try:
        return _file(Stamp.of(os.stat(result.path))) not in written
    except OSError:
        return False


def _write(result: FixResult, after: bytes, written: set[tuple[int, int]]) -> FileError | None:
    """Write one file, add the file that it replaces to ``written`` and return the error, if any."""
    from memlint.fix.atomic import other_names, write_atomically

    path = result.path
    try:
        now = Stamp.of(os.stat(path))
        file = (now.device, now.inode)
        if file in written and result.stamp is not None:
            # A hard link: to replace the other name changed this one's count of links.
            now = now._replace(changed_ns=result.stamp.changed_ns)
        if now != result.stamp:
            return FileError(path, "changed while it was being fixed; left as it is")
        names = other_names(path)
        write_atomically(path, after)
        written.add(file)
    except OSError as error:
        return FileError(path, f"could not be written: {reason(error)}; left as it was")
    if names:
        text = f"{shown_path(path)}: {plural(names, 'hard link')} to it keep the old content"
        click.echo(text if names > 1 else text.replace("keep", "keeps"), err=True)
    return None


def _report_change(result: FixResult, mode: Mode, quiet: bool, out: Style) -> None:
    if mode.diff:
        sys.stdout.write(_coloured(result.patch, out))
        return
    if quiet:
        return
    verb = "would fix" if mode.only_check else "fixed"
    count = plural(len(result.fixed), "finding")
    aside = mode.output_format != "text"
    click.echo(f"{out(shown_path(result.path), 'bold')}: {verb} {count}", err=aside)
    what = Counter(
        (finding.code, finding.fix.message if finding.fix else "") for finding in result.fixed
    )
    for (code, message), count_of in what.items():
        times = f" ({count_of} times)" if count_of > 1 else ""
        click.echo(f"    {out(code, 'bold', 'cyan')} {visible(message)}{times}", err=aside)


def _report_what_remains(report: str, inputs: Inputs, cache: Cache | None) -> None:
    """Write the findings that remain as ``check`` does; all, where nothing was written."""
    if report == "text":
        return
    from memlint.reports import FORMATS_WITH_FIXES, Report, render, words_of

    results = check_jobs(inputs.jobs, show_fixes=report in FORMATS_WITH_FIXES, cache=cache)
    codes = sorted({finding.code for result in results for finding in result.findings})
    for piece in render(report, Report(results, words_of(codes))):
        sys.stdout.write(piece)


def _done(changed: Sequence[FixResult], unwritten: Sequence[FixResult], *, writes: bool) -> str:
    """Say what was fixed, or would be, and what could not be written."""
    done = []
    if changed:
        first = sum(result.first_pass for result in changed)
        following = sum(len(result.fixed) for result in changed) - first
        also = f" and {following} that followed from a fix" if following else ""
        verb = "Fixed" if writes else "Would fix"
        done.append(f"{verb} {plural(first, 'finding')}{also} in {plural(len(changed), 'file')}")
    if unwritten:
        count = plural(sum(len(result.fixed) for result in unwritten), "fix", "fixes")
        done.append(f"{count} in {plural(len(unwritten), 'file')} not written")
    return "; ".join(done) or "Nothing to fix"


def _report_sum(
    changed: Sequence[FixResult],
    left: Sequence[Rendered],
    unwritten: Sequence[FixResult],
    *,
    writes: bool,
) -> None:
    """Print the summary on standard error: standard output may be a patch or a script."""
    text = _done(changed, unwritten, writes=writes)
    counted = sum(finding.counts for finding in left)
    unsafe = sum(finding.fix is not None and finding.fix.applicability == "unsafe"
                 for finding in left)  # fmt: skip
    if counted:
        text += f"; {plural(counted, 'finding')} {'remains' if counted == 1 else 'remain'}"
    if unsafe:
        text += f", {unsafe} fixable with `--unsafe-fixes`"
    click.echo(f"{text}.", err=True)
    if counted and writes:
        click.echo("`memlint check` shows what remains.", err=True)


def _report_withheld(tried: Sequence[FixResult], paths: Sequence[str], unsafe: bool | None) -> None:
    """Print the command that applies the fixes withheld because no file states the versions."""
    withheld = [result for result in tried if result.withheld]
    if not withheld:
        return
    count = sum(result.withheld for result in withheld)
    naming = {result.checked.naming for result in withheld}
    target = naming.pop() if len(naming) == 1 else "VERSIONS"
    options = ["--target", target, *(["--unsafe-fixes"] if unsafe else [])]
    command = visible(shlex.join(["memlint", "fix", *options, *paths]))
    click.echo(
        f"To apply {plural(count, 'more fix', 'more fixes')}: `{command}`. Versions are only "
        "assumed, and these fixes would be wrong for some versions that you may use.",
        err=True,
    )


def _report_conditions(changed: Sequence[FixResult], tried: Sequence[FixResult]) -> None:
    """Print what the fixed scripts now need, and which versions are assumed."""
    commands = {
        finding.fix.requires
        for result in changed
        for finding in result.fixed
        if finding.fix is not None and finding.fix.requires
    }
    for command in sorted(commands):
        click.echo(f"The fixed code imports memlint_runtime: `{command}`.", err=True)
    assumed = dict.fromkeys(each for result in tried for each in result.checked.assumed)
    if not assumed:
        return
    click.echo(f"Versions assumed: {', '.join(assumed)}.", err=True)


def _coloured(patch: str, style: Style) -> str:
    """Return ``patch`` in colours. Control characters are escaped on a terminal only.

    A patch in a file or pipe stays unchanged, so that it can be applied.
    """
    if not sys.stdout.isatty():
        return "".join(_line(line, style) for line in patch.splitlines(keepends=True))
    lines = (visible(line.removesuffix("\r").replace("\t", "    ")) for line in patch.split("\n"))
    return "\n".join(_line(line, style) for line in lines)


def _line(line: str, style: Style) -> str:
    body = line.rstrip("\r\n")
    colours_of = {"---": "bold", "+++": "bold", "@@": "cyan", "-": "red", "+": "green"}
    colour = next((name for start, name in colours_of.items() if body.startswith(start)), None)
    return line if colour is None else style(body, colour) + line[len(body) :]
