"""Launch commands against the rules: what a command gives to the script that it starts.

The script is checked once more for each command, which gives it its settings
(``memlint.engine.command_line``). What is found at one of them belongs to the command: it is
reported where the value is written, and edits go there.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from memlint.engine.command_line import Given
from memlint.recipes.launch import Command
from memlint.recipes.trl_program import Written
from memlint.rule.findings import Applicability, Finding, Fix
from memlint.run.agreement import OfCommand
from memlint.run.command_lines import (
    MAX_BYTES,
    PARSERS,
    commands_of,
    is_complete,
    paths_of,
    place_of_fix,
)
from memlint.run.engine import Asked, check_program, parsed, unsuppressed
from memlint.run.launchers import launcher_of
from memlint.run.runs import Runs
from memlint.run.trl_recipes import edits_where_written
from memlint.source import Place, Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source

if TYPE_CHECKING:
    from memlint.engine.nodes import Module

NO_COMMANDS = "starts no training script: nothing to check"
# On whose versions it depends what is found.
LIBRARIES = frozenset({"trl", "transformers"})

_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


def _settings(command: Command) -> dict[str, Given]:
    """What a command gives to its script, each setting with its place."""
    flags = {flag.name: flag for flag in command.settings if flag.form == "option"}
    return {
        name: Given(
            flag.value,
            Place(flag.span, Written(command.span, name)),
            Place(flag.option_span, Written(command.span, name)),
        )
        for name, flag in flags.items()
    }


def check_launch_source(source: Source, asked: Asked, runs: Runs) -> list[OfCommand]:
    """What the rules find in the commands of ``source``, each with its command."""
    findings: list[OfCommand] = []
    scripts: dict[str, tuple[Source, Module] | None] = {}
    place = runs.place
    files = Runs(os.path.abspath(place))
    for command in commands_of(source):
        paths = list(paths_of(command, place))
        found = next(filter(os.path.isfile, paths), None)
        runs.scripts.update(paths)
        if found is not None and found not in scripts:
            scripts[found] = _script(found)
        script = scripts[found] if found is not None else None
        if script is None or not command.settings:
            continue
        launcher = launcher_of(command, files.files(place))
        at_commands = check_program(
            *script,
            asked,
            given=_settings(command),
            launcher=launcher._replace(complete=is_complete(command, place)),
        )
        findings += [
            OfCommand(command.span, _at_command(each, command))
            for each in unsuppressed(script[0], at_commands, asked.rules, report_unused=False)
            if isinstance(each.span, Place) and each.span.end and place_of_fix(each) is None
        ]
    runs.scripts.update(files.used)
    return findings


def _script(path: str) -> tuple[Source, Module] | None:
    """The script at ``path`` if a parser of its own reads the command line."""
    try:
        data = read_regular(path, MAX_BYTES)
        if PARSERS.search(data) is None:
            return None
        source = read_source(path, data)
        return source, parsed(source)
    except (OSError, ReadError, SyntaxError, ValueError):
        return None


def _at_command(finding: Finding, command: Command) -> Finding:
    """A finding at a setting that a command gives, with the edits of the command."""
    fix = finding.fix
    if fix is not None:
        edits = edits_where_written(fix.edits)
        message = _ASSIGNED.sub(lambda one: _as_flag(one, command), fix.message)
        fix = fix._replace(message=message, edits=edits or ())
        if edits is None:
            fix = Fix(fix.message, (), Applicability.DISPLAY)
    return finding._replace(span=Span(*finding.span), fix=fix)


def _as_flag(found: re.Match[str], command: Command) -> str:
    """``--bf16 True`` for ``bf16=True`` where the command has such an option."""
    flag = command.setting(found[1])
    if flag is None or not re.fullmatch(r"['\"]?[\w.,:/@%+-]+['\"]?", found[2], re.ASCII):
        return found[0]
    value = found[2].strip("'\"")
    return f"`{flag.option} {value}`"
