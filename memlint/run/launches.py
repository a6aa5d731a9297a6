"""What launch commands start: against the rules, and as the memory model's settings.

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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from memlint.engine.project import project_of
from memlint.recipes.document import values
from memlint.recipes.launch import Command
from memlint.rule.findings import Applicability, Finding
from memlint.run.command_lines import (
    MAX_BYTES,
    PARSERS,
    CommandSettings,
    Launches,
    commands_of,
    paths_of,
    place_of_fix,
)
from memlint.run.engine import Asked, Prefilter, check_program, script_of, unsuppressed
from memlint.run.pricing import settings_or_none
from memlint.run.runs import Runs
from memlint.run.trl_recipes import edits_where_written, settings_of_trl
from memlint.runs.devices import by_deepspeed, by_file_name
from memlint.runs.recipe_settings import settings_of_recipe
from memlint.runs.run_settings import joined, settings_of
from memlint.source import Place, Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.fix.draft import Splice
    from memlint.recipes.recipe import Recipe
    from memlint.rule import Rule
    from memlint.run.runs import Around
    from memlint.script.model import Script

NO_COMMANDS = "starts no training script: nothing to check"
# On whose versions it depends what is found.
LIBRARIES = frozenset({"trl", "transformers"})

_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


class OfCommand(NamedTuple):
    """A finding, and the place of the command that it was found for. settings: those of what the
    command starts, where the run was read for the finding."""

    command: Span
    finding: Finding
    settings: Mapping[str, Any] | None = None


def check_launch_source(source: Source, asked: Asked, runs: Runs) -> list[OfCommand]:
    """What the rules find in the commands of ``source``, each with its command, and where prices
    are asked for with the settings of its run."""
    findings: list[OfCommand] = []
    launches = Launches(lambda: runs)
    prefilter = Prefilter(asked.requested)
    for command in commands_of(source):
        script = _started(command, runs)
        if script is not None and command.settings:
            given = launches.given_by(script.path, runs.place, command)
            run = _run(script, given, asked, prefilter, runs)
            findings += _of_run(command, *run, asked) if run is not None else ()
    return findings


def _started(command: Command, runs: Runs) -> Source | None:
    """The script that a command starts, if a parser of its own reads the command line."""
    paths = list(paths_of(command, runs.place))
    path = next(filter(os.path.isfile, paths), None)
    runs.scripts.update(paths)
    if path is not None and path not in runs.started:
        runs.started[path] = _script(path)
    return runs.started[path] if path is not None else None


def _run(
    script: Source, given: CommandSettings, asked: Asked, prefilter: Prefilter, runs: Runs
) -> tuple[Script, list[Rule]] | None:
    """A script with what a command gives to it, and the rules that may speak of it; None where
    there are none, or it does not parse."""
    said = "\n".join(f"{name} {each.value}" for name, each in (given.settings or {}).items())
    rules = list(prefilter.asked(script.data + said.encode("utf-8", "replace")))
    if not rules:
        return None
    project = project_of(script.path, script.data, runs.modules)
    try:
        return script_of(script, asked.api, project, given), rules
    except (SyntaxError, ValueError):
        return None


def _of_run(command: Command, run: Script, rules: list[Rule], asked: Asked) -> list[OfCommand]:
    """What is found at the settings of a command, in the run of its script."""
    found = unsuppressed(run.source, check_program(run, asked, rules), asked.rules, False)
    here = [
        _at_command(finding, command)
        for finding in found
        if isinstance(finding.span, Place) and finding.span.end and not place_of_fix(finding)
    ]
    settings = settings_or_none(partial(settings_of, run)) if here and asked.pricing else None
    run.forget()
    return [OfCommand(command.span, finding, settings) for finding in here]


def _script(path: str) -> Source | None:
    """The script at ``path`` if a parser of its own reads the command line."""
    try:
        data = read_regular(path, MAX_BYTES)
        return read_source(path, data) if PARSERS.search(data) is not None else None
    except (OSError, ReadError, ValueError):
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
    from memlint.fix.command_edits import splice_of
    from memlint.fix.outcome import FixError

    edits = finding.fix.edits if finding.fix is not None else ()
    try:
        return [splice_of(source, commands, edit) for edit in edits]
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


# -- the memory model's settings -------------------------------------------------------------------


def settings_of_run(recipe: Recipe, api: Api, around: Around, runs: Runs) -> dict[str, Any] | None:
    """Return the settings of a recipe's training; None where it trains nothing that is known."""
    files = runs.files(runs.place)
    if not recipe.kind.fills_trl:
        known = recipe._replace(overridden=around.overridden)
        return settings_of_recipe(known, api, around.launcher, files)
    settings = settings_of_trl(recipe, api, around)
    word = recipe.option("deepspeed").value
    if settings is None or not isinstance(word, str) or around.launcher.engine:
        return settings
    dtype = str(settings.get("compute_dtype", "")) if settings.get("autocast") else ""
    file = files(word)
    shared = by_file_name(word, dtype, "zero2")
    if file is not None:
        settings.get("notes", {}).pop("sharding", None)
        shared = by_deepspeed(values(file.document.root), dtype)
    return joined(settings, shared)


def settings_of_file(recipe: Recipe, api: Api, runs: Runs) -> dict[str, Any] | None:
    """Return the settings of a recipe's training, as far as all of its commands agree; None of a
    command over a recipe that is not at hand."""
    around = runs.around(recipe)
    if recipe.command is not None:
        return None if recipe.config else settings_of_run(recipe, api, around, runs)
    every = [settings_of_run(run, api, around, runs) for _, run, around in runs.each_run(recipe)]
    if all(one == every[0] for one in every):
        return every[0]
    return settings_of_run(recipe, api, around, runs)
