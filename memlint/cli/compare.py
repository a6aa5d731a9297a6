"""``memlint compare``: what changes in findings and memory, between files or since a commit."""

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from typing import Any

import click

from memlint.adopt.comparison import (
    Difference,
    check_out,
    differences,
    lines,
    shown_code,
    unchanged,
)
from memlint.cli.inputs import Usage, gather
from memlint.cli.options import Common
from memlint.project.commits import HistoryError
from memlint.reports.style import visible
from memlint.rule.registry import Choice
from memlint.rule.savings import Footprint, Pricing, ends
from memlint.run.checking import check_jobs
from memlint.run.jobs import Job, asking_for_peak
from memlint.run.results import FileResult, Rendered
from memlint.source.bounded import parse_json, read_regular


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
        before, after, here = _two(paths) if base is None else _since(base, paths, scratch)
        title = f"{shown_code(before)} -> {shown_code(after)}"
        if base is not None:
            title = f"{shown_code(after)} since {shown_code(base)}"
        elif target_before:
            title += f", {target_before} -> {target or 'as here'}"
        older = options._replace(target=target_before or target)
        with chdir(here if os.path.isdir(here) else scratch):
            old, is_stated = _results(before, older, after, base is not None)
        new, also_stated = _results(after, options, after)
    if is_stated and target_before:
        raise Usage(f'{before}: settings name their releases by "versions", not --target-before')
    return _report(old, new, title, output_format, is_stated or also_stated)


def _report(
    old: dict[str, FileResult],
    new: dict[str, FileResult],
    title: str,
    output_format: str,
    is_stated: bool,
) -> int:
    """Print what differs and return the exit status. is_stated: a side is a file of settings."""
    if is_stated:  # what is found in a script beside settings is neither new nor mended
        old, new = (
            {name: each._replace(findings=()) for name, each in side.items()} for side in (old, new)
        )
    found = differences(old, new)
    if output_format == "json":
        click.echo(json.dumps([_facts(each) for each in found], indent=2))
    else:
        told = lines(found, title, markdown=output_format == "markdown")
        click.echo("\n".join(told) if found else unchanged(old, new))
        if is_stated:
            click.echo("Settings have no findings: phases and peaks alone are compared.")
    return 1 if any(finding.counts for each in found for finding in each.new) else 0


def _two(paths: tuple[str, ...]) -> tuple[str, str, str]:
    """Return what is compared with what, and the folder from which both are judged."""
    if len(paths) != 2:
        raise Usage("expected two scripts, recipes, settings or folders, or --base REF")
    before, after = paths
    if os.path.isdir(before) != os.path.isdir(after):
        raise Usage(f"{before}, {after}: compare two files, or two folders")
    return before, after, os.curdir


def _since(base: str, paths: tuple[str, ...], scratch: str) -> tuple[str, str, str]:
    """Return the path as it was at a commit, written below ``scratch``, as it is, and the folder
    from which the first is judged, as the second is from the current one."""
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
    return before, after, os.path.join(scratch, os.path.relpath(os.getcwd(), top))


def _results(
    path: str, options: Common, shown: str, may_lack: bool = False
) -> tuple[dict[str, FileResult], bool]:
    """Return what is found below ``path``, by what its files are called if that is ``shown``, and
    True if it is a file of settings."""
    if may_lack and not os.path.exists(path):
        return {}, False
    footprint, why = _stated(path, options)
    if footprint is not None:
        return {os.path.normpath(shown): FileResult(path, footprint=footprint)}, True
    inputs = gather((path,), options)
    found = _with_peaks(inputs.jobs)
    for error in (*inputs.diagnostics, *(each for one in found for each in one.diagnostics)):
        if error.path == path:
            raise Usage(f"{path}: {error.message}{why}")
        click.echo(visible(f"not compared: {error.path}: {error.message}"), err=True)
    return {
        os.path.normpath(os.path.join(shown, os.path.relpath(one.path, path))): one for one in found
    }, False


def _stated(path: str, options: Common) -> tuple[Footprint | None, str]:
    """Return what a run needs if its settings are all that a file holds, whatever it is called; of
    other JSON why they are not."""
    from memlint.memory import estimate
    from memlint.memory.settings import check_inner_names, read_settings, with_pricing

    try:
        values = parse_json(read_regular(path))
    except (OSError, ValueError):
        return None, ""
    try:
        read_settings(values)
        check_inner_names(values)
        run = estimate(with_pricing(values, Pricing(options.gpu or "", options.assume)))
    except ValueError as error:
        return None, f"; as settings (docs/settings.md): {error}"
    phases, peak = tuple((each.name, each.total) for each in run.phases), run.peak.total
    gpu = ("", 0) if run.gpu is None else (run.gpu.name, run.gpu.room)
    return Footprint(peak, *ends(peak), run.peak.name, None, None, *gpu, phases=phases), ""


def _with_peaks(jobs: Sequence[Job]) -> list[FileResult]:
    """Return what is found in files, with the peaks of those in which nothing is found, too."""
    found = check_jobs(jobs)
    clean = {one.path for one in found if not one.findings and one.footprint is None}
    asked = check_jobs([asking_for_peak(job) for job in jobs if job.path in clean])
    peaks = {one.path: one.footprint._replace(gpu="") for one in asked if one.footprint}
    return [one._replace(footprint=peaks.get(one.path, one.footprint)) for one in found]


def _facts(each: Difference) -> dict[str, Any]:
    return {
        "path": each.path,
        "new": [_finding(finding) for finding in each.new],
        "mended": [_finding(finding) for finding in each.mended],
        "peak_before": None if each.before is None else each.before.peak,
        "peak_after": None if each.after is None else each.after.peak,
        "phases": {name: {"before": a, "after": b} for name, (a, b) in each.phases.items()},
    }


def _finding(finding: Rendered) -> dict[str, Any]:
    at = finding.start
    told = {name: getattr(finding, name) for name in ("code", "level", "message")}
    return {**told, "row": at.row, "cell": at.cell}
