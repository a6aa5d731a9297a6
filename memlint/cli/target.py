"""``memlint target``: for which versions a script is checked, and where that was found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from memlint.cli.inputs import check_targets, settings_here
from memlint.cli.options import Common
from memlint.project.targets import Targets
from memlint.reports.style import visible
from memlint.rule.registry import Choice

if TYPE_CHECKING:
    from memlint.api import Target
    from memlint.project.config import Settings

_LIBRARIES = ("trl", "transformers", "peft", "accelerate", "torch")


def target_command(path: str, target: str | None, config: str | None) -> int:
    """Print a line per library; the exit status."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    options = Common(Choice(), target, config, False, False, None, False, False)
    settings = settings_here(options, folder)
    check_targets([settings], target)
    script = os.path.join(path, "train.py") if os.path.isdir(path) else path
    for line in describe(_target(script, settings, target)):
        click.echo(visible(line))
    return 0


def _target(script: str, settings: Settings, option: str | None) -> Target:
    """The versions for ``script``, each with where it was said."""
    if settings.target and option is None:
        from memlint.api import parse_target

        return parse_target(settings.target, os.path.basename(settings.origin))
    return Targets().of(script, settings.target)


def describe(target: Target) -> Iterator[str]:
    """``trl 1.16.0 (newest known, assumed)`` for every library."""
    for library in _LIBRARIES:
        version = target.version(library)
        assumed = ", assumed" if version.assumed else ""
        note = f": {version.note}" if version.note else ""
        yield f"{library} {version.version} ({version.source}{assumed}){note}"
