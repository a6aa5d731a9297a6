"""``memlint target``: show which versions a script is checked for, and where they come from."""

import os
from collections.abc import Iterator

import click

from memlint.api.target_versions import Target
from memlint.cli.inputs import Usage, check_targets, settings_here
from memlint.cli.options import Common
from memlint.project.targets import Targets
from memlint.reports.style import visible
from memlint.rule.registry import Choice
from memlint.source import Source
from memlint.source.diagnostics import ReadError


def target_command(path: str, target: str | None, config: str | None) -> int:
    """Print a line for each library and return the exit status."""
    if not os.path.exists(path):
        raise Usage(f"{path}: no such file or folder; name a script, a folder or nothing")
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    options = Common(Choice(), target, config, False, False, None, False, False)
    settings = settings_here(options, folder)
    check_targets([settings], target, tell=False)
    said_by = "--target" if target is not None else os.path.basename(settings.origin)
    targets = Targets(said_by)
    if os.path.isdir(path):
        found = targets.of(os.path.join(os.path.abspath(path), "train.py"), settings.target)
    else:
        found = targets.of(os.path.abspath(path), settings.target, _source(path))
    for line in describe(found):
        click.echo(visible(line))
    return 0


def _source(path: str) -> Source | None:
    """Return the script, which may name versions itself; None if it cannot be read."""
    from memlint.source.reading import read_source

    try:
        return read_source(path)
    except ReadError:
        return None


def describe(target: Target) -> Iterator[str]:
    """Yield a line such as ``trl 1.16.0 (newest known, assumed)`` for every library."""
    for library in target.releases:
        version = target.version(library)
        assumed = ", assumed" if version.assumed else ""
        note = f": {version.note}" if version.note else ""
        yield f"{library} {version.version} ({version.source}{assumed}){note}"
