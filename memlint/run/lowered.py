"""Map findings in the script that stands for a recipe back to the recipe."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from memlint.api.successors import Replace
from memlint.recipes.kinds import Reader
from memlint.recipes.recipe import Recipe
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.run.runtime_fixes import runtime_imports
from memlint.source import Span
from memlint.source.edits import (
    Edit,
    RemoveItem,
    RemoveKeyword,
    RenameItem,
    RenameKeyword,
    ReplaceExpression,
    SetItem,
    SetKeyword,
)

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.recipes.lowering import Lowered, Region
    from memlint.recipes.methods import Method

# What a fix names that only a Python program can call.
_OF_PROGRAMS = re.compile(r"memlint_runtime|`\w+\([\w.]*(?:trainer|model)\b")
_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")


def in_recipe(
    recipe: Recipe, reader: Reader, method: Method, lowered: Lowered, finding: Finding, api: Api
) -> Finding | None:
    """The finding as the recipe's, for what reads it; None for one that is the script's alone."""
    place = _place(lowered, finding.span)
    if place is None:
        return None
    if not _needs_program(finding.fix):
        fix = _fix(recipe, reader, lowered, finding.fix, api)
    elif finding.level is not Level.ERROR:
        return None
    elif reader.classes:
        fix = _fix(recipe, reader, lowered, finding.fix, api)
    else:
        fix = _without(recipe, method, place, api)  # the program is not the user's
    return finding._replace(span=place, message=_words(recipe, finding.message), fix=fix)


def _without(recipe: Recipe, method: Method, place: Span, api: Api) -> Fix | None:
    """Without a key that stops the program, where only other code could do what it asks for."""
    from memlint.recipes.lowering import MODEL_CONFIG

    root = recipe.document.root
    for key, value in root.entries:
        around = Span(key.span.start, max(key.span.end, value.span.end))
        taken = any(api.accepts(each, str(key.value)) for each in (method.config, MODEL_CONFIG))
        if around.contains(place) and not taken:
            message = f"Remove `{key.value}`, and prepare the data for it: no option does the same"
            return Fix(message, (RemoveItem(root.span, str(key.value)),), Applicability.UNSAFE)
    return None


def _needs_program(fix: Fix | None) -> bool:
    """True if only a change of the program that reads the recipe would help."""
    if fix is None:
        return False
    return bool(runtime_imports(fix)) or _OF_PROGRAMS.search(fix.message) is not None


def _place(lowered: Lowered, span: Span) -> Span | None:
    from memlint.recipes.lowering import regions_at

    region = next(regions_at(lowered, span), None)
    return None if region is None else region.place


def _fix(recipe: Recipe, reader: Reader, lowered: Lowered, fix: Fix | None, api: Api) -> Fix | None:
    if fix is None:
        return None
    edits = [_edit(lowered, edit) for edit in fix.edits]
    known = tuple(
        edit for edit in edits if edit is not None and _is_taken(recipe, reader, edit, api)
    )
    message = _words(recipe, fix.message)
    if len(known) < len(edits) or not known:
        return Fix(message, (), Applicability.DISPLAY)
    return fix._replace(message=message, edits=known)


def _is_taken(recipe: Recipe, reader: Reader, edit: Edit, api: Api) -> bool:
    """True if what reads the recipe takes a key that an edit writes: parsers refuse all others."""
    root = recipe.document.root
    if not isinstance(edit, SetItem | RenameItem) or edit.mapping != root.span:
        return True
    key = edit.key if isinstance(edit, SetItem) else edit.new
    if not reader.classes or root.entry(key) is not None:
        return True
    return any(api.accepts(_at_target(each, api), key) for each in reader.classes)


def _at_target(name: str, api: Api) -> str:
    """The class that took the place of one that the target lacks, else the class itself."""
    replacement = api.successor(name) if api.exists(name) is False else None
    return replacement.qualname if isinstance(replacement, Replace) else name


def _edit(lowered: Lowered, edit: Edit) -> Edit | None:
    """The edit of the recipe that an edit of the script amounts to; None where there is none."""
    region = _region(lowered, edit)
    if region is None:
        return None
    match edit:
        case SetKeyword(name=name, source=source):
            return _set(region, _key(region, name), source)
        case SetItem(key=key, source=source):
            return _set(region, key, source)
        case ReplaceExpression(source=source):
            return _set(region, region.key, source)
        case RemoveKeyword(name=name):
            known = _key(region, name)
            return RemoveItem(region.mapping, known) if known else None
        case RemoveItem(key=key):
            return RemoveItem(region.mapping, key)
        case RenameKeyword(old=old, new=new):
            known = _key(region, old)
            return RenameItem(region.mapping, known, new) if known and _key(region, new) else None
        case RenameItem(old=old, new=new):
            return RenameItem(region.mapping, old, new)
    return None


def _set(region: Region, key: str | None, source: str) -> Edit | None:
    return SetItem(region.mapping, key, source) if key and _is_plain(source) else None


def _region(lowered: Lowered, edit: Edit) -> Region | None:
    """What of the recipe the edited call, dictionary or expression stands for."""
    match edit:
        case SetKeyword() | RemoveKeyword() | RenameKeyword():
            span = edit.call
        case SetItem() | RemoveItem() | RenameItem():
            span = edit.mapping
        case ReplaceExpression():
            span = edit.span
        case _:
            return None
    return next((region for region in lowered.regions if region.span == span), None)


def _key(region: Region, name: str) -> str | None:
    """The key that a keyword of the script is in the recipe."""
    if region.names is None:
        return None
    return region.names.get(name) or (name if region.open_names else None)


def _is_plain(source: str) -> bool:
    """True if a Python expression is data that a recipe can hold."""
    if re.fullmatch(r"torch\.(bfloat16|float16|float32)", source.strip()):
        return True
    try:
        ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return False
    return True


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
        shown = value if isinstance(value, str) else found[2]
        if isinstance(value, bool | None):
            shown = "null" if value is None else str(value).lower()
        return f"`--{found[1]} {shown}`" if recipe.command else f"`{found[1]}: {shown}`"

    return _ASSIGNED.sub(written, message)
