"""Recipes against the rules.

A recipe of TRL is checked as the script that its program runs (``memlint.run.trl_recipes``).
Recipes of other programs are asked by ``Rule.findings_of_recipe``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from memlint.api.lookup import Api
from memlint.recipes.document import DocumentError, Entry, MappingNode, nodes_in, read_document
from memlint.recipes.files import is_document, may_be_recipe, may_run_recipe
from memlint.recipes.launch import commands_in
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.rule.findings import Applicability, Finding, Level
from memlint.rule.savings import Pricing
from memlint.run.advice import hints_as_advice
from memlint.run.checked import Asking, Checked, Faults
from memlint.run.command_lines import commands_of
from memlint.run.engine import Asked, Examined, check_program, findings_of, once, unsuppressed
from memlint.run.launches import (
    LIBRARIES,
    NO_COMMANDS,
    OfCommand,
    agreed,
    check_launch_source,
    settings_of_file,
)
from memlint.run.pricing import priced, settings_or_none
from memlint.run.runs import Around, Runs
from memlint.run.trl_recipes import check_trl_recipe, edits_of
from memlint.runs.changes import is_explained_key
from memlint.script.model import Script
from memlint.source import Source, Span
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.edits import Edit, RemoveItem, RenameItem, ReplaceExpression, SetItem
from memlint.source.reading import read_source

NO_RECIPE = (
    "is not a training recipe that memlint knows: TRL, alignment-handbook, torchtune, "
    "LLaMA-Factory, axolotl, accelerate and DeepSpeed are read"
)


def check_recipe_data(
    path: str, data: bytes | None, asking: Asking, runs: Runs, *, named: bool = False
) -> Checked:
    """What is found in the recipe at ``path`` (or in ``data``), as ``check_data`` for scripts.

    What is no recipe is passed over in silence, unless the user ``named`` it.
    """
    try:
        source = read_source(path, data)
        recipes = recipes_of(source, runs) if named or _is_candidate(source, runs) else []
        commands = [] if is_document(path) else commands_of(source)
        if not recipes and not commands:
            reason = why_passed_over(source, runs) if named else NO_RECIPE
            said = FileError(path, reason.removeprefix("is "))
            return _passed_over(path, said, named, runs)
    except (ReadError, DocumentError) as error:
        return _passed_over(path, error.diagnostic, named, runs)
    faults = Faults(path)
    asked = asking(source, faults.of_rule)
    findings, footprint = examine_recipe_source(source, recipes, asked, runs)
    is_of_trl = any(recipe.kind.fills_trl for recipe in recipes)
    libraries = LIBRARIES if commands or is_of_trl else frozenset[str]()
    assumed = asked.api.target.assumed_of(libraries) if findings else ()
    naming = asked.api.target.naming(LIBRARIES) if assumed else ""
    broken = tuple(line for recipe in recipes for line in duplicate_keys(recipe))
    parts = (findings, tuple(faults), assumed, naming, runs.relied_on, footprint, broken)
    return Checked(path, source, *parts)


def _is_candidate(source: Source, runs: Runs) -> bool:
    """True if a file is to be parsed: by its words, or since a launch command names it."""
    return not is_document(source.path) or may_be_recipe(source.raw) or runs.is_named


def why_passed_over(source: Source, runs: Runs) -> str:
    """Why nothing is checked in a file that was read. Raises ``DocumentError``."""
    if not is_document(source.path):
        named = dict.fromkeys(one.recipe for one in commands_in(source) if one.recipe)
        which = "that" if len(named) == 1 else "these"
        said = f"takes all settings from {' and '.join(named)}: check {which}"
        return said if named else NO_COMMANDS
    reader = runs.reader_of(read_document(source).root)
    return NO_RECIPE if reader is None else f"is passed over: {reader.evidence}"


def _passed_over(path: str, reason: FileError, named: bool, runs: Runs) -> Checked:
    """A file in which nothing is checked: why matters to the user who named it."""
    return Checked(path, diagnostics=(reason,) if named else (), relied_on=runs.relied_on)


def recipes_of(source: Source, runs: Runs) -> list[Recipe]:
    """The recipes in a file: the document, or one for each launch command that gives settings.

    Raises ``DocumentError``.
    """
    if is_document(source.path):
        read = [read_recipe(source, runs.reader_of)]
    elif may_run_recipe(source.raw if source.is_notebook else source.data):
        from memlint.recipes.commands import recipe_of

        commands = commands_in(source)
        read = [recipe_of(source, one, runs.recipe_of(source.path, one)) for one in commands]
    else:
        return []
    return [runs.of_release(one) for one in read if one is not None]


def with_commands(notebook: Checked, asked: Asked, runs: Runs) -> Checked:
    """A checked notebook with what is found in the launch commands of its cells.

    Nothing of a shell's line is rewritten: fixes are advice.
    """
    source = notebook.source
    if source is None or not commands_in(source):
        return notebook
    recipes = recipes_of(source, runs)
    found = examine_recipe_source(source, recipes, asked, runs)
    findings = [each.as_advice() for each in found.findings]
    relied_on = dict.fromkeys((*notebook.relied_on, *runs.relied_on))
    return notebook._replace(findings=[*notebook.findings, *findings], relied_on=tuple(relied_on))


def examine_recipe_source(
    source: Source, recipes: Sequence[Recipe], asked: Asked, runs: Runs
) -> Examined:
    """What the rules find in the recipes of ``source``, in order of place, suppressed findings left
    out, each with the price of its own run."""

    def check(script: Script) -> list[Finding]:
        findings = check_program(script, asked, asked.requested)
        script.forget()
        return findings

    def own(recipe: Recipe, around: Around) -> list[Finding]:
        if recipe.kind.fills_trl:
            found = check_trl_recipe(recipe, asked.api, check, around)
            of_classes = [each for each in found if each.code.startswith("MEM9")]
            of_training = len(of_classes) < len(found)
            if of_training and runs.trains_nothing(recipe.reader, recipe.document.root):
                return of_classes
            fixes = [each.fix for each in found if each.fix is not None]
            safe = any(each.applicability is Applicability.SAFE for each in fixes)
            if safe and runs.may_train_own_code(recipe.reader):
                return check_trl_recipe(recipe, asked.api, check, around._replace(own_code=True))
            return found
        known = recipe._replace(overridden=around.overridden)
        return _in_own_words(known, asked)

    alone: dict[str, set[str]] = {}
    found = [
        OfCommand(recipe.document.root.span, with_decisions(recipe, each))
        for recipe in recipes
        for each in beside_others(recipe, _of_recipe(recipe, runs, own, alone), runs)
    ]
    if is_document(source.path):
        findings = [each.finding for each in found]
    else:
        found += check_launch_source(source, asked, runs)
        findings = agreed(source, commands_in(source), found)
    findings = unsuppressed(source, once(findings), asked.rules, asked.unused_suppressions)
    if asked.pricing is None or not (found or asked.pricing.gpu):
        return Examined(findings)
    owners = {_key(each.finding): each.command for each in reversed(found)}
    settings = {each.command: each.settings for each in found if each.settings is not None}
    asked_for = recipes if not found and len(commands_in(source)) < 2 else ()  # as of a script
    left = {*owners.values(), *(one.document.root.span for one in asked_for)} - settings.keys()
    settings |= _settings_of(recipes, asked.api, runs, left)
    return _priced(findings, owners, settings, asked.pricing)


def _key(finding: Finding) -> tuple[Span, str, str]:
    return finding.span, finding.code, finding.message


def _settings_of(
    recipes: Sequence[Recipe], api: Api, runs: Runs, owners: set[Span]
) -> dict[Span, Mapping[str, Any]]:
    """The settings of the runs at ``owners``, documents or commands, whose models are known."""
    found: dict[Span, Mapping[str, Any]] = {}
    for recipe in recipes:
        place = recipe.document.root.span
        read = partial(settings_of_file, recipe, api, runs)
        settings = settings_or_none(read) if place in owners else None
        if settings is not None:
            found[place] = settings
    return found


def _priced(
    findings: Sequence[Finding],
    owners: Mapping[tuple[Span, str, str], Span],
    settings: Mapping[Span, Mapping[str, Any]],
    pricing: Pricing,
) -> Examined:
    """The findings with the prices of their runs; what the run needs, where the file has one."""
    examined: list[Examined] = []
    rest: list[Finding] = []
    for owner in dict.fromkeys(owners.get(_key(each)) for each in findings) or settings:
        own = [each for each in findings if owners.get(_key(each)) == owner]
        run = settings.get(owner) if owner is not None else None
        if run is None:
            rest += own
        else:
            examined.append(Examined(*priced(run, own, pricing, ())))
    rest, _ = priced({}, rest, pricing, ()) if rest else (rest, None)
    if len(examined) == 1 and not rest:
        return examined[0]
    every = [*rest, *(finding for one in examined for finding in one.findings)]
    return Examined(sorted(every, key=lambda each: (each.span, each.code)))


def _of_recipe(
    recipe: Recipe,
    runs: Runs,
    check: Callable[[Recipe, Around], list[Finding]],
    alone: dict[str, set[str]],
) -> list[Finding]:
    """What ``check`` finds in a recipe and its surroundings, of what stands in its file.

    alone: the codes that are found in recipes themselves, by path; those that are asked are added.
    """

    findings = _in_file(recipe, runs, check)
    base = recipe.base
    if base is not None and findings:
        path = base.source.path
        if path not in alone:
            alone[path] = {each.code for each in _in_file(base, runs.at(path), check)}
        return list(_by_command(recipe, findings, alone[path]))
    if recipe.command is None:
        return findings
    return [each for each in findings if _is_of_command(recipe, each)]


def _in_file(
    recipe: Recipe, runs: Runs, check: Callable[[Recipe, Around], list[Finding]]
) -> list[Finding]:
    """What ``check`` finds in a recipe where the keys that its commands set anew are unknown, and
    what it finds in the recipe by itself and with each command, whatever that sets."""
    around = runs.around(recipe)
    findings = check(recipe, around)
    if not around.overridden:
        return findings
    known = {each.code for each in findings}
    by_itself = [
        each
        for each in check(recipe, around._replace(overridden=frozenset()))
        if each.code not in known and around.overridden.isdisjoint(keys_at(recipe, each.span))
    ]
    for run in runs.commanded(recipe) if by_itself else ():
        left = check(run, runs.at(run.source.path).around(run))
        codes = {each.code for each in left if not _is_written(run, each)}
        by_itself = [each for each in by_itself if each.code in codes]
    return [*findings, *by_itself]


def _is_of_command(recipe: Recipe, finding: Finding) -> bool:
    """True if a finding is about what a command sets, or leaves out where that is certain."""
    root = recipe.document.root
    if finding.span == root.span:
        return recipe.is_complete
    return root.span.contains(finding.span) or _is_written(recipe, finding)


def _is_written(recipe: Recipe, finding: Finding) -> bool:
    """True if a finding is about a setting that a command gives."""
    return any(place.contains(finding.span) for place in _places(recipe.document.root))


def _by_command(recipe: Recipe, findings: Sequence[Finding], alone: set[str]) -> Iterator[Finding]:
    """Yield what a command makes of its recipe.

    alone: the codes that are found in the recipe's file: they are said there.
    """
    root = recipe.document.root
    for finding in findings:
        if _is_written(recipe, finding):
            yield finding
        elif finding.code not in alone:
            yield finding._replace(span=root.span)


def _places(root: MappingNode) -> Iterator[Span]:
    """Where the settings of a command are written, in variables too."""
    for key, value in root.entries:
        if isinstance(value, MappingNode):
            yield from _places(value)
        else:
            yield value.span
            yield key.span
            if key.span.end <= value.span.start:
                yield Span(key.span.start, value.span.end)


def _in_own_words(recipe: Recipe, asked: Asked) -> list[Finding]:
    """What is found in a recipe that no Python stands for."""
    findings: list[Finding] = []
    for rule in asked.requested:
        if rule.is_of_recipe:
            findings += findings_of(rule, rule.findings_of_recipe, recipe, asked.on_error)
    return hints_as_advice(findings, asked.by_code, recipe.source.path)


def duplicate_keys(recipe: Recipe) -> Iterator[FileError]:
    """A line for each key that stands twice in one mapping: only the last one counts."""
    for key in recipe.document.duplicates:
        place = recipe.source.location(key.span.start)
        yield FileError(
            recipe.source.path,
            f"the key {key.value!r} stands twice here; only the last one counts",
            place.row,
            place.column,
        )


# -- what holds a fix back -------------------------------------------------------------------------
# A key that stands twice, a comment, another reader.


def with_decisions(recipe: Recipe, finding: Finding) -> Finding:
    """A finding without a fix where that names a key that stands twice (which one is meant?), or
    changes a value that a comment explains, but for one that stops the run or warns."""
    doubled = {str(each.value) for each in recipe.document.duplicates}
    if doubled and not doubled.isdisjoint(_keys_of(recipe, finding)):
        return finding.as_advice()
    if finding.level in (Level.ERROR, Level.NOTICE):
        return finding
    source = recipe.source
    changed = (each for edit in edits_of(finding) for each in _changed(recipe, edit))
    is_decided = any(is_explained_key(source, key.span, value.span) for key, value in changed)
    return finding.as_advice() if is_decided else finding


def _changed(recipe: Recipe, edit: Edit) -> Iterator[Entry]:
    """Yield the entry of a document to which an edit gives another value."""
    nodes = nodes_in(recipe.document.root) if recipe.command is None else ()
    for node in (each for each in nodes if isinstance(each, MappingNode)):
        if isinstance(edit, SetItem):
            entry = node.entry(edit.key) if node.span == edit.mapping else None
            yield from [entry] if entry is not None else []
        elif isinstance(edit, ReplaceExpression):
            yield from (each for each in node.entries if each.value.span == edit.span)


def beside_others(recipe: Recipe, findings: Sequence[Finding], runs: Runs) -> Iterator[Finding]:
    """Yield findings whose fixes are unsafe where they rewrite a key that other code asks for."""
    for finding in findings:
        keys = () if recipe.command is not None else tuple(_keys_of(recipe, finding))
        fix = finding.fix
        if fix is None or fix.applicability is not Applicability.SAFE or not keys:
            yield finding
            continue
        # An option that is renamed or left out for an error is none at the target.
        named = all(isinstance(each, RenameItem | RemoveItem) for each in edits_of(finding))
        stops = named and finding.level is Level.ERROR
        without = recipe.reader.classes if stops and recipe.reader else ()
        gone = {each.rpartition(".")[2] for each in without}
        for key, where in runs.asked_elsewhere(recipe.document.root, keys, gone).items():
            message = f"{fix.message}; `{where}` may ask for `{key}` too"
            fix = fix._replace(message=message, applicability=Applicability.UNSAFE)
            break
        yield finding._replace(fix=fix)


def _keys_of(recipe: Recipe, finding: Finding) -> Iterator[str]:
    """Yield the keys of a recipe that the edits of a finding rewrite or add."""
    for edit in edits_of(finding):
        names = {getattr(edit, name, None) for name in ("key", "old")}
        span = getattr(edit, "span", None) or getattr(edit, "mapping", None)
        yield from (each for each in names if isinstance(each, str))
        yield from keys_at(recipe, span) if span else ()


def keys_at(recipe: Recipe, span: Span) -> Iterator[str]:
    """Yield the key at the top of a recipe at, or in whose value, a place is."""
    for key, value in recipe.document.root.entries:
        if key.span.contains(span) or value.span.contains(span):
            yield str(key.value)
