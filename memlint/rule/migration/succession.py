"""Turning what the tables say of a successor into edits.

What was called, moved, merged or dropped is knowledge of ``memlint.api``; here it meets one call of
one script: where the option stands (keyword, dict item, subscript, attribute), whether its value
can be read where it has to go, and what else the call already says. Where an edit would be a guess
there is advice instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from memlint.rule import (
    UNSURE,
    Applicability,
    Build,
    Call,
    Edit,
    Environment,
    Fix,
    How,
    InsertStatement,
    Move,
    Remove,
    RemoveItem,
    RemoveKeyword,
    Rename,
    RenameAttribute,
    RenameItem,
    RenameKeyword,
    ReplaceExpression,
    Runtime,
    Script,
    SetItem,
    SetKeyword,
    Setting,
    Successor,
)
from memlint.rule.changes import set_option
from memlint.rule.migration.option_places import Edits, assigned, value_node, without_option
from memlint.rule.migration.prompt_limits import kept_limit
from memlint.rule.migration.relocation import moved_to_config
from memlint.rule.references import reference_to


def option_fix(script: Script, call: Call, setting: Setting, way: Successor | None) -> Fix | None:
    """What to do about an option of a call, as edits where they are certain, else as advice."""
    if way is None:
        return None
    message = _message(setting.name, way)
    if isinstance(way, Runtime):
        kept = None
        if not _is_read_back(script, call, setting):
            kept = kept_limit(script, call, setting, way)
        if kept is None:
            return Fix(message, (), Applicability.DISPLAY)
        return Fix(message, *kept)
    edits = _option_edits(script, call, setting, way)
    if edits is None:
        return Fix(message, (), Applicability.DISPLAY)
    return Fix(message, edits, Applicability.SAFE if way.safe else Applicability.UNSAFE)


def _message(name: str, way: Successor) -> str:
    match way:
        case Rename(parameter=new):
            text = f"Write `{new}` instead of `{name}`"
        case Move(parameter=new):
            text = f"Set `{new}` in the trainer's configuration"
        case Build(parameter=new, source=source):
            shown = source.replace("{{", "{").replace("}}", "}").replace("{value}", "...")
            text = f"Write `{new}={shown}`"
        case Environment(variable=variable):
            text = f"Set `{variable}` in the environment"
        case Runtime(function=function):
            text = f"Let `{function}` do it"
        case Remove():
            text = f"Remove `{name}`"
        case _:
            return way.note[:1].upper() + way.note[1:]
    return f"{text}: {way.note}" if way.note else text


def _is_read_back(script: Script, call: Call, setting: Setting) -> bool:
    """Whether the option stands in a dictionary from which the script reads it by its old name.

    What is read while the dictionary is made (``{"packing": recipe["packing"]}``) is another's.
    """
    owner = setting.owner
    if setting.how is How.ATTRIBUTE or owner is call.node or owner is None:
        return False
    made = script.span(owner)
    for node in script.nodes(ast.Subscript):
        key = node.slice
        reads = isinstance(node.ctx, ast.Load) and isinstance(key, ast.Constant)
        named = reads and getattr(key, "value", None) == setting.name
        if named and not made.contains(script.span(node)):
            return True
    return any(
        isinstance(one.node.args[0], ast.Constant)
        and one.node.args[0].value == setting.name
        and not made.contains(one.span)
        for one in script.method_calls("get", "pop", "setdefault")
        if one.node.args
    )


def _option_edits(script: Script, call: Call, setting: Setting, way: Successor) -> Edits | None:
    if _is_read_back(script, call, setting):
        return None
    match way:
        case Rename(parameter=new, source=source):
            return _rename(script, call, setting, new, source)
        case Remove():
            return without_option(script, call, setting)
        case Build():
            return _build(script, call, setting, way)
        case Move(parameter=new, source=source):
            return moved_to_config(script, call, setting, new, source)
        case Environment(variable=variable):
            return _environment(script, call, setting, variable)
        case _:
            return None


def _rename(script: Script, call: Call, setting: Setting, new: str, source: str) -> Edits | None:
    owner = setting.owner
    if owner is None:
        return None
    value = value_node(script, call, setting)
    if value is None:
        return None
    present = call.setting(new)
    unseen = call.open_ended and new not in call.keywords
    beside = setting.how in (How.KEYWORD, How.ATTRIBUTE) or setting.from_launch
    if present.given is not False and not (unseen and beside):
        # (What ``**`` or a command line may bring in beside the old name is no new name of the
        # same thing; what is assigned after it counts.)
        gone = without_option(script, call, setting)
        if gone is None or not present.given:
            return None
        if present.by_default and (present.is_none or present.is_value(0)):
            # A flag may make it count.
            return None
        if present.is_none or present.is_value(0):
            # ``warmup_steps=0, warmup_ratio=0.1``: the one that says something counts.
            moved = set_option(script, call, new, source.format(value=script.text(value)))
            return (*gone, *moved) if moved is not None else None
        return gone if present.known else None
    change: Edits = ()
    if source != "{value}":
        filled = source.format(value=script.text(value))
        change = (ReplaceExpression(script.span(value), filled),)
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return (RenameKeyword(script.span(owner), setting.name, new), *change)
        case How.ITEM if isinstance(owner, ast.Dict):
            return (RenameItem(script.span(owner), setting.name, new), *change)
        case How.SUBSCRIPT if isinstance(owner, ast.Assign):
            target = owner.targets[0]
            if isinstance(target, ast.Subscript):
                key = script.text(target.slice)
                return (
                    ReplaceExpression(script.span(target.slice), key.replace(setting.name, new)),
                    *change,
                )
        case How.ATTRIBUTE if isinstance(owner, ast.Assign):
            target = owner.targets[0]
            if isinstance(target, ast.Attribute):
                return (RenameAttribute(script.span(target), new), *change)
    return None


def _build(script: Script, call: Call, setting: Setting, way: Build) -> Edits | None:
    """``load_in_4bit=True, ...`` becomes ``quantization_config=BitsAndBytesConfig(...)``."""
    owner = setting.owner
    value = value_node(script, call, setting)
    if owner is None or value is None:
        return None
    present = call.setting(way.parameter)
    before = ""
    if way.parameter != setting.name and present.given is not False:
        # What it would build is there already: the old option has nothing left to say.
        if present.given and present.known and present.value is not None:
            return without_option(script, call, setting)
        there = value_node(script, call, present) if present.owner is owner else None
        if (
            not isinstance(there, ast.Name | ast.Attribute)
            or way.parameter != "quantization_config"
        ):
            return None
        before = f"{script.text(there)} or "
    merged = [
        one
        for one in map(call.setting, way.merge)
        if one.name != setting.name and one.given is not False
    ]
    if any(one.owner is not owner for one in merged):
        return None
    first = next((name for name in way.merge if name in (setting.name, *_names(merged))), None)
    if first is not None and first != setting.name and way.merge:
        # One of them speaks for all, so that they are merged once.
        return None
    source = way.source.format(value=script.text(value))
    sure = setting.value is True and not setting.by_default
    flags = {} if sure else {setting.name: script.text(value)}
    for one in merged:
        node = value_node(script, call, one)
        if node is None:
            return None
        if (one.value is False or one.value is None) and not one.by_default:
            continue
        source = f"{source[:-1]}, {one.name}={script.text(node)})"
        if one.name in _QUANTIZE:
            sure |= one.value is True and not one.by_default
            flags[one.name] = script.text(node)
    if setting.name in _QUANTIZE and not sure:
        # A configuration that asks for neither would quantize all the same.
        asked = [one if one.isidentifier() else _grouped(one) for one in flags.values()]
        source = f"{source} if {' or '.join(asked)} else None"
        source = f"({source})" if before else source
    source = before + source
    edits: list[Edit] = []
    for qualname in way.imports:
        reference = reference_to(script, qualname, owner)
        if reference is None:
            return None
        source = source.replace(qualname.rpartition(".")[2], reference.text)
        edits += reference.edits
    span = script.span(owner)
    names = [setting.name, *_names(merged)]
    if setting.how is How.KEYWORD and isinstance(owner, ast.Call):
        gone = [RemoveKeyword(span, name) for name in names if name != way.parameter]
        return (*gone, SetKeyword(span, way.parameter, source), *edits)
    if setting.how is How.ITEM and isinstance(owner, ast.Dict):
        left_out = [RemoveItem(span, name) for name in names if name != way.parameter]
        return (*left_out, SetItem(span, way.parameter, source), *edits)
    return None


_QUANTIZE = ("load_in_4bit", "load_in_8bit")


def _grouped(source: str) -> str:
    """An expression as an operand of ``or``."""
    plain = isinstance(
        # In parentheses, since it may take several lines.
        ast.parse(f"({source})", mode="eval").body,
        ast.Name | ast.Attribute | ast.Call | ast.Compare,
    )
    return source if plain and "\n" not in source else f"({source})"


def _names(settings: Iterable[Setting]) -> list[str]:
    return [one.name for one in settings]


def _environment(script: Script, call: Call, setting: Setting, variable: str) -> Edits | None:
    value = value_node(script, call, setting)
    gone = without_option(script, call, setting)
    if value is None or gone is None or setting.how not in (How.KEYWORD, How.ITEM):
        return None
    statement = script.statement(setting.owner or call.node)
    if not script.is_bound_before(value, statement):
        return None
    reference = reference_to(script, "os.environ", statement)
    if reference is None or not isinstance(statement, ast.Assign | ast.Expr | ast.AnnAssign):
        return None
    if setting.value is None:
        # None meant the library's own choice; a flag may make another.
        return gone if not setting.by_default else None
    text = assigned(script.text(value))
    line = f'{reference.text}["{variable}"] = '
    if isinstance(setting.value, str) or _is_string(script, value):
        line += text
    elif setting.value is UNSURE and isinstance(value, ast.Name | ast.Attribute | ast.IfExp):
        asked = f"({text})" if isinstance(value, ast.IfExp) else text
        line = f"if {asked} is not None:\n    {line}str({text})"
    else:
        line += f"str({text})"
    return (*gone, InsertStatement(script.span(statement), line), *reference.edits)


def _is_string(script: Script, value: ast.expr) -> bool:
    """Whether an expression surely makes a string."""
    if isinstance(value, ast.JoinedStr):
        return True
    return isinstance(value, ast.Call) and script.name(value.func) in _MAKE_STRINGS


_MAKE_STRINGS = frozenset({"builtins.str", "str", "os.path.join", "os.path.abspath"})
