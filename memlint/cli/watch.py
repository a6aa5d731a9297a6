"""``memlint check --watch``: check again whenever a file changes, until Ctrl-C."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import click

from memlint.cli.inputs import Usage, gather, show_error
from memlint.cli.options import Common

_SECONDS = 0.5


def watch(check: Callable[[], object], paths: Sequence[str], options: Common) -> int:
    """Call ``check`` at once and whenever a file below ``paths`` changes. Return 0 at Ctrl-C."""
    try:
        while True:
            seen = _stamps(_files(paths, options))
            click.clear()
            try:
                check()
            except click.ClickException as error:  # a configuration that is being edited
                show_error(error)
            click.echo("Watching; Ctrl-C ends.", err=True)
            while _stamps(_files(paths, options)) == seen:
                time.sleep(_SECONDS)
    except KeyboardInterrupt:
        return 0


def _files(paths: Sequence[str], options: Common) -> Iterable[str]:
    """Return what is checked, and its configuration; nothing where that cannot be read."""
    try:
        inputs = gather(paths, options, tell=False)
    except Usage:
        return [options.config or ""]
    return [*(job.path for job in inputs.jobs), inputs.settings.origin]


def _stamps(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    stamps = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps
