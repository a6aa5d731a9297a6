"""A script as its project runs it: the files around it, and what launch commands give to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.project import Modules, project_of
from memlint.run.command_lines import Launches
from memlint.run.engine import read_script

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.run.command_lines import CommandSettings
    from memlint.run.engine import Options
    from memlint.script import Script
    from memlint.source import Source


def options_around(place: str, data: bytes) -> Options:
    """The options of a check that the project of the script at ``place`` decides."""
    return {
        "project": project_of(place, data, Modules()),
        "command_line": _command_line(place, data),
    }


def script_around(source: Source, place: str, api: Api) -> Script:
    """The script at ``place`` with its project.

    Raises ``SyntaxError`` as ``ast.parse`` does.
    """
    return read_script(source, api, options_around(place, source.data))


def _command_line(place: str, data: bytes) -> CommandSettings | None:
    return Launches().of(place, data) if place.endswith(".py") else None
