"""``memlint target``: for which versions a script is checked, and where that was found."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from memlint.commands.inputs import check_targets, settings_here
from memlint.options import Common
from memlint.rules import Choice

_LIBRARIES = ("trl", "transformers", "peft", "accelerate", "torch")


def target_command(path: str, target: str | None, config: str | None) -> int:
    """Print a line per library; the exit status."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    options = Common(Choice(), target, config, False, False, None, False, False)
    settings = settings_here(options, folder)
    check_targets({settings.target})
    for line in describe(settings.target):
        click.echo(line)
    return 0


def describe(target: str) -> Iterator[str]:
    """``trl 1.16.0 (newest known, assumed)`` for every library."""
    from memlint.api import newest, parse_target

    resolved = parse_target(target) if target else newest()
    for library in _LIBRARIES:
        version = resolved.version(library)
        assumed = ", assumed" if version.assumed else ""
        note = f": {version.note}" if version.note else ""
        yield f"{library} {version.version} ({version.source}{assumed}){note}"
