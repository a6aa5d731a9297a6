"""Recipes of TRL against the rules: each is the script that its program runs
(``memlint.run.trl_program``), whose findings and edits become the recipe's."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from memlint.api.lookup import Api
from memlint.api.successors import Replace
from memlint.recipes.document import merged
from memlint.recipes.kinds import Method, Reader
from memlint.recipes.recipe import Recipe
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.run.advice import runtime_imports
from memlint.run.runs import Around
from memlint.run.trl_program import Written
from memlint.runs.plain_options import Options
from memlint.script.model import Script
from memlint.source import Place, Source, Span
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

# What a fix names that only a Python program can call.
_OF_PROGRAMS = re.compile(r"memlint_runtime|`\w+\([\w.]*(?:trainer|model)\b")
_ASSIGNED = re.compile(r"`(\w+)=([^`]+)`")

Check = Callable[["Script"], list[Finding]]
# By code, place, and key where a place stands for several.
_Places = dict[tuple[str, Span, str], Finding]


def check_trl_recipe(recipe: Recipe, api: Api, check: Check, around: Around) -> list[Finding]:
    """What the rules find in a recipe of TRL, in order of place.

    check: the rules, asked of a script. around: what the rest of the run decides.
    """
    common: _Places | None = None
    for reader, method, script in _programs(recipe, api, around):
        found: _Places = {
            (each.code, each.span, getattr(each.span.setting, "key", "")): each
            for each in check(script)
            if isinstance(each.span, Place) and each.span.end
        }
        read = {at: _in_recipe(recipe, reader, method, each, api) for at, each in found.items()}
        here = {at: each for at, each in read.items() if each is not None}
        common = here if common is None else _common(common, here)
        if not common:
            return []
    return sorted((common or {}).values(), key=lambda each: (each.span, each.code))


def settings_of_trl(recipe: Recipe, api: Api, around: Around) -> Options | None:
    """Return the settings of a recipe's training by the likeliest method, as JSON has them."""
    from memlint.runs.run_settings import settings_of

    settings = settings_of(next(_programs(recipe, api, around))[2])
    _, *others = _readings(recipe, api, around)
    trainers = dict.fromkeys(method.trainer for _, method in others)
    if settings is not None and trainers:
        notes = {"trainer": f"the recipe may be one of {', '.join(trainers)} as well"}
        settings["notes"] = {**settings.get("notes", {}), **notes}
    return settings


def _programs(recipe: Recipe, api: Api, around: Around) -> Iterator[tuple[Reader, Method, Script]]:
    """Yield the programs that a recipe may stand for, each with what reads it and its method."""
    from memlint.run.trl_program import RecipeProgram
    from memlint.script.model import build_script

    for reader, method in _readings(recipe, api, around):
        program = RecipeProgram(recipe, method, api, around, reader).module()
        source = Source(f"{recipe.source.path}.py", "")  # what is written is in the nodes
        yield reader, method, build_script(source, api, launcher=around.launcher, tree=program)


def _readings(recipe: Recipe, api: Api, around: Around) -> Iterator[tuple[Reader, Method]]:
    """What may read the recipe, with each method that it may train by."""
    from memlint.recipes.kinds import method_named, method_of_classes, methods_of

    below = recipe.base.document.root.entries if recipe.base is not None else ()
    written = {*merged(recipe.document.root), *(e.key.value for e in (*below, *around.entries))}
    keys = {key for key in written if isinstance(key, str)}
    first = recipe.reader or Reader(recipe.kind, "")
    for reader in {(each.classes, each.own): each for each in (first, *first.also)}.values():
        certain = method_of_classes(reader.classes, api)
        named = certain or method_named(recipe.name or around.method)
        for method in named or methods_of(recipe.source, keys, api):
            yield reader, method


def _common(first: _Places, second: _Places) -> _Places:
    """What is found both ways; what is not mended alike is not mended."""
    return {
        place: each if edits_of(each) == edits_of(second[place]) else each.as_advice()
        for place, each in first.items()
        if place in second
    }


def edits_of(finding: Finding) -> Sequence[Edit]:
    """The edits of its fix, if it has any."""
    return finding.fix.edits if finding.fix is not None else ()


def _in_recipe(
    recipe: Recipe, reader: Reader, method: Method, finding: Finding, api: Api
) -> Finding | None:
    """The finding as the recipe's, for what reads it; None for one that is the script's alone."""
    if not _needs_program(finding.fix):
        fix = _fix(recipe, reader, finding.fix, api)
    elif finding.level is not Level.ERROR:
        return None
    elif reader.classes:
        fix = _fix(recipe, reader, finding.fix, api)
    else:
        fix = _without(recipe, method, finding.span, api)  # the program is not the user's
    message = _words(recipe, finding.message)
    return finding._replace(span=Span(*finding.span), message=message, fix=fix)


def _without(recipe: Recipe, method: Method, place: Span, api: Api) -> Fix | None:
    """Without a key that stops the program, where only other code could do what it asks for."""
    from memlint.run.trl_program import MODEL_CONFIG

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


def _fix(recipe: Recipe, reader: Reader, fix: Fix | None, api: Api) -> Fix | None:
    if fix is None:
        return None
    edits = edits_where_written(fix.edits)
    message = _words(recipe, fix.message)
    if not edits or not all(_is_taken(recipe, reader, edit, api) for edit in edits):
        return fix._replace(message=message).as_advice()
    return fix._replace(message=message, edits=edits)


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


def edits_where_written(edits: Sequence[Edit]) -> tuple[Edit, ...] | None:
    """The edits of a recipe or a command that a script's edits amount to; else None."""
    made = tuple(edit for edit in map(_edit, edits) if edit is not None)
    return made if len(made) == len(edits) else None


def _edit(edit: Edit) -> Edit | None:
    match edit:
        case SetKeyword(call=place, name=name, source=source) if at := _written(place):
            return _set(at, at.key_of(name), source)
        case SetItem(mapping=place, key=key, source=source) if at := _written(place, key):
            return _set(at, key, source)
        case ReplaceExpression(span=place, source=source) if at := _written(place):
            return _set(at, at.key, source)
        case RemoveKeyword(call=place, name=name) if at := _written(place):
            there = at.key_of(name)
            return RemoveItem(at.mapping, there) if there else None
        case RemoveItem(mapping=place, key=key) if at := _written(place, key):
            return RemoveItem(at.mapping, key)
        case RenameKeyword(call=place, old=old, new=new) if at := _written(place):
            there = at.key_of(old) if at.key_of(new) else None
            return RenameItem(at.mapping, there, new) if there else None
        case RenameItem(mapping=place, old=old, new=new) if at := _written(place, old):
            return RenameItem(at.mapping, old, new)
    return None


def _set(at: Written, key: str | None, source: str) -> Edit | None:
    return SetItem(at.mapping, key, source) if key and _is_plain(source) else None


def _written(place: Span, key: str = "") -> Written | None:
    """What of a recipe, or of a command, is written at a place of the script; of ``key`` where it
    holds several settings of a command."""
    from memlint.run.trl_program import Written

    setting = getattr(place, "setting", None)
    if isinstance(setting, Mapping) and key in setting:
        setting = setting[key].place.setting
    return setting if isinstance(setting, Written) else None


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
