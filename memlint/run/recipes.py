"""Recipes against the rules.

A recipe of TRL is checked as the script that its program runs (``memlint.recipes.lowering``): the
same rules look at it, and their findings and edits go back to the places of the recipe. Recipes of
other programs are asked in their own words by ``memlint_rules.recipes``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.document import DocumentError, is_document
from memlint.recipes.files import may_run_recipe
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.rule.edits import (
    Edit,
    RemoveItem,
    RemoveKeyword,
    RenameItem,
    RenameKeyword,
    ReplaceExpression,
    SetItem,
    SetKeyword,
)
from memlint.rule.findings import Applicability, Fix, Level, Violation
from memlint.rule.registry import recipe_check
from memlint.run.around import Around
from memlint.run.command_lines import commands_of
from memlint.run.engine import (
    Checked,
    OnError,
    Prefilter,
    check_source,
    defect,
    hints_as_advice,
    once,
    violation_of,
)
from memlint.run.launches import LIBRARIES, NO_COMMANDS, check_launch_source
from memlint.run.runtime_fixes import runtime_imports
from memlint.source import Source, Span
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.reading import read_source

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.recipes.lowering import Lowered, Region
    from memlint.rule import Rule
    from memlint.run.runs import Runs

NO_RECIPE = (
    "is not a training recipe that memlint knows: TRL, alignment-handbook, torchtune, "
    "LLaMA-Factory, axolotl, accelerate and DeepSpeed are read"
)
Check = Callable[[Source], list[Violation]]
# What a fix names that only a Python program can call.
_FULL_PRECISION = "MEM402"
_LOWERED = frozenset({Kind.TRL, Kind.ALIGNMENT_HANDBOOK})
_OF_PROGRAMS = re.compile(r"memlint_runtime|`\w+\([\w.]*(?:trainer|model)\b")


def check_recipe_data(
    path: str,
    data: bytes | None,
    rules: Sequence[Rule],
    api: Callable[[Source], Api],
    *,
    named: bool = False,
    unused_suppressions: bool = True,
    prefilter: Prefilter | None = None,
    by_code: frozenset[str] | None = None,
    runs: Runs | None = None,
) -> Checked:
    """What is found in the recipe at ``path`` (or in ``data``), as ``check_data`` for scripts.

    What is no recipe is passed over in silence, unless the user ``named`` it.
    """
    try:
        source = read_source(path, data)
        recipes = recipes_of(source, runs)
    except (ReadError, DocumentError) as error:
        return Checked(path, diagnostics=(error.diagnostic,) if named else ())
    commands = [] if is_document(path) else commands_of(source)
    if named and not (recipes or commands or is_document(path)):
        return Checked(path, diagnostics=(FileError(path, NO_COMMANDS),))
    if not recipes and not commands:
        return Checked(path, diagnostics=(FileError(path, NO_RECIPE),) if named else ())
    diagnostics = [line for recipe in recipes for line in duplicate_keys(recipe)]

    def failed(rule: Rule, error: Exception) -> None:
        diagnostics.append(defect(path, f"rule {rule.code}", error))

    tables = api(source)
    violations = check_recipe_source(
        source,
        recipes,
        rules,
        tables,
        unused_suppressions=unused_suppressions,
        on_error=failed,
        prefilter=prefilter,
        by_code=by_code,
        runs=runs,
    )
    assumed: tuple[str, ...] = ()
    naming = ""
    if violations and (commands or any(recipe.kind in _LOWERED for recipe in recipes)):
        assumed = tables.target.assumed_of(LIBRARIES)
        naming = tables.target.naming(LIBRARIES) if assumed else ""
    relied_on = runs.relied_on(path) if runs is not None else ()
    return Checked(path, source, violations, tuple(diagnostics), assumed, naming, relied_on)


def recipes_of(source: Source, runs: Runs | None = None) -> list[Recipe]:
    """The recipes in a file: the document, or one for each launch command that gives settings.

    Raises ``DocumentError``.
    """
    if is_document(source.path):
        recipe = read_recipe(source)
        return [] if recipe is None else [recipe]
    if not may_run_recipe(source.data):
        return []
    from memlint.recipes.commands import recipe_of
    from memlint.recipes.launch import kind_of, read_commands

    found = []
    for command in read_commands(source.text, kind_of(source.path) or "shell"):
        base = runs.recipe_of(source.path, command) if runs is not None else None
        recipe = recipe_of(source, command, base)
        if recipe is not None:
            found.append(recipe)
    return found


def check_recipe_source(
    source: Source,
    recipes: Sequence[Recipe],
    rules: Sequence[Rule],
    api: Api,
    *,
    unused_suppressions: bool = True,
    on_error: OnError | None = None,
    prefilter: Prefilter | None = None,
    by_code: frozenset[str] | None = None,
    runs: Runs | None = None,
) -> list[Violation]:
    """What ``rules`` find in the recipes of ``source``, in order of place, suppressed findings
    left out."""

    def check(script: Source) -> list[Violation]:
        return check_source(
            script,
            rules,
            api,
            unused_suppressions=False,
            on_error=on_error,
            prefilter=prefilter,
            by_code=by_code,
        )

    violations: list[Violation] = []
    for recipe in recipes:
        around = runs.around(recipe) if runs is not None else Around()
        if recipe.kind in _LOWERED:
            found = check_recipe(recipe, api, check, around)
        else:
            known = recipe.run_with(around.overridden) if around.overridden else recipe
            found = _in_own_words(known, rules, by_code, on_error)
        violations += [each for each in found if _is_of_this_file(recipe, each, around)]
    if not is_document(source.path):
        violations += check_launch_source(
            source,
            rules,
            api,
            place=runs.place if runs is not None else source.path,
            on_error=on_error,
            prefilter=prefilter,
            by_code=by_code,
            relied_on=runs.scripts if runs is not None else None,
        )
    violations = once(violations)
    if b"memlint:" not in source.data:
        return violations
    from memlint.rule.registry import UNUSED_SUPPRESSION
    from memlint.run.suppressions import apply

    codes = {rule.code for rule in rules}
    if unused_suppressions:
        codes.add(UNUSED_SUPPRESSION)
    return apply(source, violations, codes)


def _is_of_this_file(recipe: Recipe, violation: Violation, around: Around) -> bool:
    """Whether a finding is about what stands in the file, and not made right by the launcher."""
    if around.mixed and violation.code == _FULL_PRECISION:
        return False
    if is_document(recipe.source.path) and recipe.base is None:
        return True
    root = recipe.document.root
    if violation.span == root.span:
        return recipe.base is None and recipe.is_complete
    return root.span.contains(violation.span) or any(
        violation.span == one.value.span for one in root.entries
    )


def _in_own_words(
    recipe: Recipe,
    rules: Sequence[Rule],
    by_code: frozenset[str] | None,
    on_error: OnError | None,
) -> list[Violation]:
    """What is found in a recipe that no Python stands for."""
    violations: list[Violation] = []
    for rule in rules:
        if rule.on_request and by_code is not None and rule.code not in by_code:
            continue
        check = recipe_check(rule.code, recipe.kind)
        if check is None:
            continue
        try:
            violations += [violation_of(rule, each) for each in check(recipe)]
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            if on_error is None:
                raise
            on_error(rule, error)
    return hints_as_advice(violations, by_code)


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


def check_recipe(recipe: Recipe, api: Api, check: Check, around: Around) -> list[Violation]:
    """What the rules find in a recipe of TRL, in order of place.

    check: the rules, asked of a script. around: what the rest of the run decides.
    """
    from memlint.recipes.commands import merged_root
    from memlint.recipes.lowering import lower
    from memlint.recipes.methods import method_named, methods_of

    root = merged_root(recipe, len(recipe.source.data) + 1)
    common: dict[tuple[str, Span], Violation] | None = None
    named = method_named(recipe.name or around.method)
    for method in named or methods_of(recipe.source, root, api):
        lowered = lower(
            root,
            method,
            api,
            around.options,
            complete=recipe.is_complete,
            unknown=around.overridden,
        )
        script = Source(f"{recipe.source.path}.py", lowered.text)
        found = [_in_recipe(recipe, lowered, each) for each in check(script)]
        here = {(each.code, each.span): each for each in found if each is not None}
        common = here if common is None else {k: v for k, v in common.items() if k in here}
        if not common:
            return []
    return sorted((common or {}).values(), key=lambda each: (each.span, each.code))


# -- from the script back to the recipe ------------------------------------------------------------


def _in_recipe(recipe: Recipe, lowered: Lowered, violation: Violation) -> Violation | None:
    """The violation as the recipe's; None for one that is the script's alone."""
    place = _place(lowered, violation.span)
    if place is None or (violation.level is not Level.ERROR and _needs_program(violation.fix)):
        return None
    fix = _fix(recipe, lowered, violation.fix)
    return violation._replace(span=place, message=_words(recipe, violation.message), fix=fix)


def _needs_program(fix: Fix | None) -> bool:
    """Whether only a change of the program that reads the recipe would help."""
    if fix is None:
        return False
    return bool(runtime_imports(fix)) or _OF_PROGRAMS.search(fix.message) is not None


def _place(lowered: Lowered, span: Span) -> Span | None:
    from memlint.recipes.lowering import regions_at

    region = next(regions_at(lowered, span), None)
    return None if region is None else region.place


def _fix(recipe: Recipe, lowered: Lowered, fix: Fix | None) -> Fix | None:
    if fix is None:
        return None
    edits = [_edit(lowered, edit) for edit in fix.edits]
    known = tuple(edit for edit in edits if edit is not None)
    message = _words(recipe, fix.message)
    if len(known) < len(edits) or not known:
        return Fix(message, (), Applicability.DISPLAY)
    return fix._replace(message=message, edits=known)


def _edit(lowered: Lowered, edit: Edit) -> Edit | None:
    """The edit of the recipe that an edit of the script amounts to; None where there is none."""
    match edit:
        case SetKeyword(call=span, name=name, source=source):
            region = _region(lowered, span)
            key = _key(region, name)
            if region is None or key is None or not _is_plain(source):
                return None
            return SetItem(region.mapping, key, source)
        case RemoveKeyword(call=span, name=name):
            region = _region(lowered, span)
            key = _key(region, name)
            return RemoveItem(region.mapping, key) if region and key else None
        case RenameKeyword(call=span, old=old, new=new):
            region = _region(lowered, span)
            key = _key(region, old)
            renamed = region is not None and (region.open_names or (region.names or {}).get(new))
            return RenameItem(region.mapping, key, new) if region and key and renamed else None
        case SetItem(mapping=span, key=name, source=source):
            region = _region(lowered, span)
            return SetItem(region.mapping, name, source) if region and _is_plain(source) else None
        case RemoveItem(mapping=span, key=name):
            region = _region(lowered, span)
            return RemoveItem(region.mapping, name) if region else None
        case RenameItem(mapping=span, old=old, new=new):
            region = _region(lowered, span)
            return RenameItem(region.mapping, old, new) if region else None
        case ReplaceExpression(span=span, source=source):
            region = _region(lowered, span)
            if region is None or not region.key or not _is_plain(source):
                return None
            return SetItem(region.mapping, region.key, source)
    return None


def _region(lowered: Lowered, span: Span) -> Region | None:
    return next((one for one in lowered.regions if one.span == span), None)


def _key(region: Region | None, name: str) -> str | None:
    if region is None or region.names is None:
        return None
    return region.names.get(name) or (name if region.open_names else None)


def _is_plain(source: str) -> bool:
    """Whether a Python expression is data that a recipe can hold."""
    if re.fullmatch(r"torch\.(bfloat16|float16|float32)", source.strip()):
        return True
    try:
        ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return False
    return True


_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


def _words(recipe: Recipe, message: str) -> str:
    """A message with settings as the recipe writes them: `bf16: true` for `bf16=True`."""

    def written(found: re.Match[str]) -> str:
        dtype = re.fullmatch(r"torch\.(\w+)", found[2])
        try:
            value = dtype[1] if dtype else ast.literal_eval(found[2])
        except (ValueError, SyntaxError):
            return found[0]
        if recipe.document.json:
            import json

            return f'`"{found[1]}": {json.dumps(value)}`'
        if isinstance(value, bool | None):
            return f"`{found[1]}: {'null' if value is None else str(value).lower()}`"
        return f"`{found[1]}: {value if isinstance(value, str) else found[2]}`"

    return _ASSIGNED.sub(written, message)
