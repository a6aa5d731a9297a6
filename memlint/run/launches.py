"""Launch commands against the rules: what a command gives to the script that it starts.

The script is checked once more for each command, which gives it its settings
(``memlint.engine.command_line``). What is found at one of them belongs to the command: it is
reported where the value is written, and edits go there.

A shell array may hold flags of two programs. What one of them should get in its place is written
there only where the other, checked by itself, asks for the same.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.engine.command_line import Given
from memlint.engine.project import project_of
from memlint.recipes.launch import Command
from memlint.recipes.trl_program import Written
from memlint.rule.findings import Applicability, Finding
from memlint.run.command_lines import (
    MAX_BYTES,
    PARSERS,
    commands_of,
    is_complete,
    paths_of,
    place_of_fix,
)
from memlint.run.engine import Asked, check_program, unsuppressed
from memlint.run.launchers import launcher_of
from memlint.run.prefilter import Prefilter
from memlint.run.runs import Runs
from memlint.run.trl_recipes import edits_where_written
from memlint.source import Place, Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.parsing import parse_python
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.engine.nodes import Module
    from memlint.fix.draft import Splice

NO_COMMANDS = "starts no training script: nothing to check"
# On whose versions it depends what is found.
LIBRARIES = frozenset({"trl", "transformers"})

_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


class OfCommand(NamedTuple):
    """A finding, and the place of the command that it was found for."""

    command: Span
    finding: Finding


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
    prefilter = Prefilter(asked.requested)
    place = runs.place
    for command in commands_of(source):
        paths = list(paths_of(command, place))
        found = next(filter(os.path.isfile, paths), None)
        runs.scripts.update(paths)
        if found is not None and found not in runs.started:
            runs.started[found] = _script(found)
        script = runs.started[found] if found is not None else None
        if script is None or not command.settings:
            continue
        settings, launcher = _settings(command), launcher_of(command, runs.files(place))
        said = "\n".join(f"{name} {flag.value}" for name, flag in settings.items())
        rules = list(prefilter.asked(script.data + said.encode("utf-8", "replace")))
        tree = _tree(script) if rules else None
        if tree is None:
            continue
        at_commands = check_program(
            script,
            tree,
            asked,
            rules,
            given=settings,
            project=project_of(script.path, script.data, runs.modules),
            launcher=launcher._replace(complete=is_complete(command, place)),
        )
        findings += [
            OfCommand(command.span, _at_command(each, command))
            for each in unsuppressed(script, at_commands, asked.rules, report_unused=False)
            if isinstance(each.span, Place) and each.span.end and place_of_fix(each) is None
        ]
    return findings


def _script(path: str) -> Source | None:
    """The script at ``path`` if a parser of its own reads the command line."""
    try:
        data = read_regular(path, MAX_BYTES)
        return read_source(path, data) if PARSERS.search(data) is not None else None
    except (OSError, ReadError, ValueError):
        return None


def _tree(script: Source) -> Module | None:
    try:
        return parse_python(script.text)
    except (SyntaxError, ValueError):
        return None


def _at_command(finding: Finding, command: Command) -> Finding:
    """A finding at a setting that a command gives, with the edits of the command."""
    fix = finding.fix
    if fix is not None:
        edits = edits_where_written(fix.edits)
        message = _ASSIGNED.sub(lambda one: _as_flag(one, command), fix.message)
        fix = fix._replace(message=message, edits=edits or ())
        if edits is None:
            fix = fix.as_advice()
    return finding._replace(span=Span(*finding.span), fix=fix)


def _as_flag(found: re.Match[str], command: Command) -> str:
    """``--bf16 True`` for ``bf16=True`` where the command has such an option."""
    flag = command.setting(found[1])
    if flag is None or not re.fullmatch(r"['\"]?[\w.,:/@%+-]+['\"]?", found[2], re.ASCII):
        return found[0]
    value = found[2].strip("'\"")
    return f"`{flag.option} {value}`"


# -- words that several commands read --------------------------------------------------------------


def agreed(
    source: Source, commands: Sequence[Command], found: Sequence[OfCommand]
) -> list[Finding]:
    """The findings; a fix that another reader of its words does not ask for becomes advice, and
    one that is unsafe for any of them is unsafe."""
    shared = list(_shared(commands))
    if not shared:
        return [each.finding for each in found]
    splices = [_splices(source, commands, each.finding) for each in found]
    wanted: dict[Splice, dict[Span, Applicability]] = defaultdict(dict)
    for each, own in zip(found, splices, strict=True):
        for splice in own:
            if each.finding.fix is not None:
                wanted[splice][each.command] = each.finding.fix.applicability
    return [
        _agreed(each, [(one, _readers(shared, one)) for one in own], wanted)
        for each, own in zip(found, splices, strict=True)
    ]


def _agreed(
    each: OfCommand,
    splices: Sequence[tuple[Splice, set[Span]]],
    wanted: dict[Splice, dict[Span, Applicability]],
) -> Finding:
    fix = each.finding.fix
    if fix is None:
        return each.finding
    for splice, readers in splices:
        wanting = wanted[splice]
        if not readers - {each.command} <= wanting.keys():
            fix = fix.as_advice()
        elif any(wanting[one] is Applicability.UNSAFE for one in readers & wanting.keys()):
            fix = fix.as_unsafe()
    return each.finding._replace(fix=fix)


def _splices(source: Source, commands: Sequence[Command], finding: Finding) -> list[Splice]:
    # Of the package that takes libcst: few files share words.
    from memlint.fix.command_edits import splices_of
    from memlint.fix.outcome import FixError

    edits = finding.fix.edits if finding.fix is not None else ()
    try:
        return splices_of(source, commands, edits)
    except FixError:
        return []


def _shared(commands: Sequence[Command]) -> Iterator[tuple[Span, set[Span]]]:
    """The words that several commands read, with those that do."""
    for command in commands:
        for flag in (*command.settings, *command.launcher):
            if flag.readers:
                yield flag.span, {command.span, *flag.readers}
            if flag.option_readers:
                yield flag.option_span, {command.span, *flag.option_readers}


def _readers(shared: Sequence[tuple[Span, set[Span]]], splice: Splice) -> set[Span]:
    found: set[Span] = set()
    for place, readers in shared:
        if splice.span.overlaps(place):
            found |= readers
    return found
