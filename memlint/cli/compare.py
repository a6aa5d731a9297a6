"""``memlint compare``: what changes in findings and memory, between scripts or since a commit."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from typing import Any

import click

from memlint.adopt.commits import HistoryError
from memlint.adopt.comparison import Difference, check_out, differences, lines
from memlint.cli.inputs import Usage, gather
from memlint.cli.options import Common
from memlint.rule.registry import Choice
from memlint.run.checking import check_jobs
from memlint.run.results import FileResult, Rendered


def compare_command(
    paths: tuple[str, ...],
    *,
    base: str | None,
    target: str | None,
    target_before: str | None,
    gpu: str | None,
    assume: tuple[str, ...],
    output_format: str,
) -> int:
    """Check both versions, print what differs and return the exit status."""
    options = Common(Choice(), target, None, False, False, None, False, True, None, gpu, assume)
    with tempfile.TemporaryDirectory(prefix="memlint-compare-") as scratch:
        if base is not None:
            if len(paths) > 1:
                raise Usage("--base takes one file or folder")
            after = paths[0] if paths else "."
            try:
                top = check_out(base, scratch)
            except HistoryError as error:
                raise Usage(f"--base: {error}") from None
            below = os.path.relpath(os.path.realpath(after), top)
            if below.startswith(os.pardir):
                raise Usage(f"{after}: lies outside of this repository")
            before = os.path.normpath(os.path.join(scratch, below))
            # What lies among tests is judged from the current folder.
            here = os.path.join(scratch, os.path.relpath(os.getcwd(), top))
        elif len(paths) == 2:
            before, after = paths
            here = os.curdir
        else:
            raise Usage("expected two scripts, recipes or folders, or --base REF")
        older = options._replace(target=target_before or target)
        with chdir(here if os.path.isdir(here) else scratch):
            old = _results(before, older, missing=base is not None)
        found = differences(*_by_name(old, before, _results(after, options), after))
    if output_format == "json":
        click.echo(json.dumps([_facts(each) for each in found], indent=2))
    else:
        for line in lines(found, markdown=output_format == "markdown"):
            click.echo(line)
    return 1 if any(finding.counts for each in found for finding in each.new) else 0


def _results(path: str, options: Common, missing: bool = False) -> list[FileResult]:
    """Return what is found below ``path``; missing: a path that is not there has nothing."""
    if missing and not os.path.exists(path):
        return []
    inputs = gather((path,), options)
    for error in inputs.diagnostics:
        raise Usage(f"{error.path}: {error.message}")
    return check_jobs(inputs.jobs)


def _by_name(
    old: Sequence[FileResult], before: str, new: Sequence[FileResult], after: str
) -> tuple[dict[str, FileResult], dict[str, FileResult]]:
    """Return both by their paths below the two folders; two files are one, under the second's
    name."""
    if os.path.isdir(after):
        return (
            {os.path.relpath(each.path, before): each for each in old},
            {os.path.relpath(each.path, after): each for each in new},
        )
    return dict.fromkeys([after], *old) if old else {}, dict.fromkeys([after], *new) if new else {}


def _facts(each: Difference) -> dict[str, Any]:
    return {
        "path": each.path,
        "new": [_finding(finding) for finding in each.new],
        "mended": [_finding(finding) for finding in each.mended],
        "peak_before": None if each.before is None else each.before.peak,
        "peak_after": None if each.after is None else each.after.peak,
    }


def _finding(finding: Rendered) -> dict[str, Any]:
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "row": finding.start.row,
        "cell": finding.start.cell,
    }
