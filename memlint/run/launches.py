"""Launch commands against the rules: what a command gives to the script that it starts.

The script is checked once more for each command, with the command's settings appended to its text
(``memlint.engine.command_line``). What is found at one of them belongs to the command: it is
reported where the value is written, and edits go there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlint.recipes.launch import Command, Flag
from memlint.rule.findings import Applicability, Finding, Fix
from memlint.run.agreement import OfCommand
from memlint.run.command_lines import (
    LEAD,
    MAX_BYTES,
    PARSERS,
    commands_of,
    is_complete,
    paths_of,
    place_of_fix,
    written,
)
from memlint.run.engine import OnError, check_source
from memlint.run.launchers import launcher_of
from memlint.run.prefilter import Prefilter
from memlint.run.runs import Runs
from memlint.source import Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.edits import Edit, RenameItem, ReplaceExpression, SetItem
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.rule import Rule

NO_COMMANDS = "starts no training script: nothing to check"
# On whose versions it depends what is found.
LIBRARIES = frozenset({"trl", "transformers"})

_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


class _Place(NamedTuple):
    """Where a piece of the appended dict comes from. is_name: it is the option, not its value."""

    span: Span
    flag: Flag
    is_name: bool


class Launched(NamedTuple):
    """A script with the settings of one command appended. begin: where they begin, in bytes."""

    source: Source
    begin: int
    mapping: Span
    places: dict[Span, _Place]


def with_command(script: Source, command: Command) -> Launched:
    """``script`` with the settings of ``command``."""
    head = f"{script.text}{LEAD}"
    parts: list[str] = ["{"]
    at = begin = len(head.encode("utf-8", "surrogatepass"))
    at += 1
    places: dict[Span, _Place] = {}
    flags = {flag.name: flag for flag in command.settings if flag.form == "option"}
    for flag in flags.values():
        name, value = repr(flag.name), written(flag)
        for text, is_name in ((name, True), (value, False)):
            size = len(text.encode("utf-8", "surrogatepass"))
            places[Span(at, at + size)] = _Place(Span(at, at + size), flag, is_name)
            parts.append(f"{text}, " if not is_name else f"{text}: ")
            at += size + 2
    parts.append("}")
    source = Source(script.path, f"{head}{''.join(parts)}\n")
    return Launched(source, begin, Span(begin, at + 1), places)


def check_launch_source(
    source: Source,
    rules: Sequence[Rule],
    api: Api,
    *,
    place: str,
    on_error: OnError | None = None,
    prefilter: Prefilter | None = None,
    by_code: frozenset[str] | None = None,
    relied_on: set[str] | None = None,
) -> list[OfCommand]:
    """What ``rules`` find in the commands of ``source``, each with its command."""
    findings: list[OfCommand] = []
    scripts: dict[str, Source | None] = {}
    runs = Runs(os.path.abspath(place))
    for command in commands_of(source):
        paths = list(paths_of(command, place))
        found = next(filter(os.path.isfile, paths), None)
        if relied_on is not None:
            relied_on.update(paths)
        if found is not None and found not in scripts:
            scripts[found] = _script(found)
        script = scripts[found] if found is not None else None
        if script is None or not command.settings:
            continue
        launched = with_command(script, command)
        launcher = launcher_of(command, runs.files(place))
        try:
            findings += [
                OfCommand(command.span, _at_command(each, launched))
                for each in check_source(
                    launched.source,
                    rules,
                    api,
                    unused_suppressions=False,
                    on_error=on_error,
                    prefilter=prefilter,
                    by_code=by_code,
                    launched=True,
                    launcher=launcher._replace(complete=is_complete(command, place)),
                )
                if each.span.start > launched.begin
                and each.span in launched.places
                and place_of_fix(each, launched.begin) is None
            ]
        except (SyntaxError, ValueError):
            continue
    if relied_on is not None:
        relied_on.update(runs.used)
    return findings


def _script(path: str) -> Source | None:
    """The script at ``path`` if a parser of its own reads the command line."""
    try:
        data = read_regular(path, MAX_BYTES)
        if PARSERS.search(data) is None:
            return None
        source = read_source(path, data)
        ast.parse(source.text)
    except (OSError, ReadError, SyntaxError, ValueError):
        return None
    return source


# -- back to the command --------------------------------------------------------------------------


def _at_command(finding: Finding, launched: Launched) -> Finding:
    """A finding at one of the appended settings, where the command gives it."""
    place = launched.places[finding.span]
    span = place.flag.option_span if place.is_name else place.flag.span
    fix = finding.fix
    if fix is not None:
        edits = [_edit_at_command(edit, launched) for edit in fix.edits]
        message = _ASSIGNED.sub(lambda one: _as_flag(one, place.flag), fix.message)
        fix = fix._replace(message=message, edits=tuple(edit for edit in edits if edit is not None))
        if None in edits:
            fix = Fix(fix.message, (), Applicability.DISPLAY)
    return finding._replace(span=span, fix=fix)


def _as_flag(found: re.Match[str], flag: Flag) -> str:
    """``--bf16 True`` for ``bf16=True`` where the flag is called so."""
    if found[1] != flag.name or not re.fullmatch(r"['\"]?[\w.,:/@%+-]+['\"]?", found[2], re.ASCII):
        return found[0]
    value = found[2].strip("'\"")
    return f"`{flag.option} {value}`"


def _edit_at_command(edit: Edit, launched: Launched) -> Edit | None:
    """The edit of the command: one plain word for another; None where it takes more."""
    match edit:
        case ReplaceExpression(span=span, source=source) if span in launched.places:
            return _value_edit(launched.places[span].flag, source)
        case SetItem(mapping=mapping, key=key, source=source) if mapping == launched.mapping:
            flag = _flag(launched, key)
            return _value_edit(flag, source) if flag is not None else None
        case RenameItem(mapping=mapping, old=old, new=new) if mapping == launched.mapping:
            flag = _flag(launched, old)
            if flag is None or not flag.is_plain_option or _flag(launched, new) is not None:
                return None
            return ReplaceExpression(flag.option_span, _option_like(flag.option, new))
        case _:
            return None


def _flag(launched: Launched, name: str) -> Flag | None:
    return next((place.flag for place in launched.places.values() if place.flag.name == name), None)


def _value_edit(flag: Flag, source: str) -> Edit | None:
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return None
    text = str(value)
    if not flag.is_plain_word or value is None or not re.fullmatch(r"[\w.,:/@%+-]+", text, re.A):
        return None
    return ReplaceExpression(flag.span, text)


def _option_like(old: str, new: str) -> str:
    """``new`` with the dashes of the option ``old``."""
    dashes = old[: len(old) - len(old.lstrip("-"))]
    return dashes + (new.replace("_", "-") if "-" in old.lstrip("-") else new)
