"""``check`` for code that is older than its linter: which findings are reported, and where."""

import os
from collections.abc import Iterable, Sequence

import click

from memlint.cli.inputs import Usage
from memlint.cli.options import Adoption
from memlint.project.config import Settings
from memlint.reports.readable import diagnostic_line, plural
from memlint.reports.style import Style, shown_path
from memlint.run.jobs import Job
from memlint.run.results import FileResult


def check_adoption(chosen: Adoption) -> None:
    """Raise ``Usage`` where two options contradict each other."""
    if chosen.reason is not None and not chosen.add_ignore:
        raise Usage("--reason goes with --add-ignore")
    if chosen.add_ignore and chosen.write_baseline is not None:
        raise Usage("--add-ignore and --write-baseline are two ways to begin: choose one")


def show(chosen: Adoption, settings: Settings, jobs: Sequence[Job]) -> bool:
    """Print files or settings if asked to; True if that was all that was asked."""
    if chosen.show_settings:
        for name, value in zip(Settings._fields, settings, strict=True):
            click.echo(f"{name.replace('_', '-')} = {_shown(value)}")
    if chosen.show_files:
        for job in jobs:
            click.echo(shown_path(job.path))
    return chosen.show_files or chosen.show_settings


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "ALL"
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


class Chosen:
    """Which findings are reported, by ``--diff-base`` and the baseline."""

    def __init__(self, chosen: Adoption, settings: Settings) -> None:
        self._changes = None
        if chosen.diff_base is not None:
            from memlint.adopt.changed import changes_since
            from memlint.project.commits import HistoryError

            try:
                self._changes = changes_since(chosen.diff_base)
            except HistoryError as error:
                raise Usage(f"--diff-base: {error}") from None
        self._baseline = chosen.baseline
        if chosen.baseline is None and settings.baseline and not chosen.writes:
            self._baseline = os.path.join(settings.root, settings.baseline)
        self.hidden = self.gone = 0

    def jobs(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs of files that may have something to report."""
        if self._changes is None:
            return jobs
        return [job for job in jobs if self._changes.touches_file(job.place)]

    def results(self, results: list[FileResult]) -> list[FileResult]:
        """Return the results with the findings that are reported."""
        if self._baseline is not None:
            from memlint.adopt.baseline import BaselineError, compare

            try:
                results, self.hidden, self.gone = compare(self._baseline, results)
            except BaselineError as error:
                raise Usage(str(error)) from None
        if self._changes is not None:
            from memlint.adopt.changed import on_changed_lines

            results = on_changed_lines(self._changes, results)
        return results

    def summary(self) -> str:
        """Return a line on what the baseline hid; empty if there is nothing to say."""
        if not self.hidden and not self.gone:
            return ""
        assert self._baseline is not None
        line = f"{plural(self.hidden, 'finding')} of the baseline {_are(self.hidden)} not shown"
        if self.gone:
            entries = plural(self.gone, "entry", "entries")
            where = shown_path(os.path.relpath(self._baseline))
            line += f"; {entries} of it {_are(self.gone)} mended (`--write-baseline {where}`)"
        return f"{line}.\n"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def keep(chosen: Adoption, results: Sequence[FileResult]) -> int:
    """Write the findings as a baseline or as comments, and return the exit status."""
    unread = [each for result in results for each in result.diagnostics]
    for diagnostic in unread:
        click.echo(diagnostic_line(diagnostic, Style(False)), err=True)
    if chosen.write_baseline is not None:
        from memlint.adopt.baseline import BaselineError, write

        try:
            count = write(chosen.write_baseline, results)
        except BaselineError as error:
            raise Usage(str(error)) from None
        where = shown_path(chosen.write_baseline)
        click.echo(
            f"Wrote {plural(count, 'finding')} to {where}; `memlint check --baseline {where}`, or "
            f'`baseline = "{where}"` in the configuration, reports only new ones.'
        )
        return 2 if unread else 0
    return max(_add_ignores(results, chosen.reason or ""), 2 if unread else 0)


def _add_ignores(results: Iterable[FileResult], why: str) -> int:
    from memlint.adopt.ignoring import add_ignores

    count = files = status = 0
    for result in results:
        if not result.findings:
            continue
        ignored = add_ignores(result.path, result.findings, why)
        count += ignored.written
        files += bool(ignored.written)
        for problem in ignored.problems:
            status = 1
            click.echo(diagnostic_line(problem, Style(False)), err=True)
    click.echo(f"Ignored {plural(count, 'finding')} in {plural(files, 'file')}.")
    return status
