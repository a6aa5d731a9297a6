"""Where an option of a call stands, and what takes its place at the target.

It may be a keyword, an item of a dictionary, a subscript or an attribute: each is read, named to
the eye and taken away in a way of its own.
"""

from __future__ import annotations

import ast

from memlint.rule import (
    UNSURE,
    Build,
    Call,
    Edit,
    How,
    Object,
    RemoveItem,
    RemoveKeyword,
    RemoveStatement,
    Rename,
    Script,
    Setting,
    Span,
    Successor,
    Symbol,
)

Edits = tuple[Edit, ...]


def value_node(script: Script, call: Call, setting: Setting) -> ast.expr | None:
    """The expression written for the option, in whatever form it stands."""
    owner = setting.owner
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return next((one.value for one in owner.keywords if one.arg == setting.name), None)
        case How.ITEM if isinstance(owner, ast.Dict):
            for key, value in zip(owner.keys, owner.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == setting.name:
                    return value
        case How.SUBSCRIPT | How.ATTRIBUTE if isinstance(owner, ast.Assign):
            return owner.value
    return None


def without_option(script: Script, call: Call, setting: Setting) -> Edits | None:
    owner = setting.owner
    if owner is None:
        return None
    match setting.how:
        case How.KEYWORD if isinstance(owner, ast.Call):
            return (RemoveKeyword(script.span(owner), setting.name),)
        case How.ITEM if isinstance(owner, ast.Dict):
            return (RemoveItem(script.span(owner), setting.name),)
        case How.SUBSCRIPT | How.ATTRIBUTE if isinstance(owner, ast.Assign):
            return (RemoveStatement(script.span(owner)),) if len(owner.targets) == 1 else None
    return None


def option_span(script: Script, call: Call, setting: Setting) -> Span:
    """Where the option is named, for the eye."""
    keyword = next(
        (one for one in getattr(setting.owner, "keywords", ()) if one.arg == setting.name), None
    )
    if keyword is not None:
        start = script.span(keyword)
        return Span(start.start, start.start + len(setting.name.encode()))
    if isinstance(setting.owner, ast.Dict):
        for key in setting.owner.keys:
            if isinstance(key, ast.Constant) and key.value == setting.name:
                return script.span(key)
    value = value_node(script, call, setting)
    return script.span(value if value is not None else call.node.func)


def successor_of(script: Script, call: Call, setting: Setting) -> Successor | None:
    """What takes the option's place at the target, its value considered where it is known.

    The default of a command line or of a parameter is not: whoever runs it may say otherwise.
    """
    certain = setting.known and not setting.by_default
    if certain and not isinstance(setting.value, Object | Symbol):
        return script.api.successor(call.name, setting.name, setting.value)
    return script.api.successor(call.name, setting.name)


def written(call: Call, setting: Setting) -> Setting:
    """The setting as the call spells it out, where its value depends on the path.

    A keyword that stands in the call is given whatever its value may be.
    """
    keyword = call.keyword_node(setting.name)
    if setting.given is not None or setting.owner is not None or keyword is None:
        return setting
    return setting._replace(
        given=True, value=UNSURE, how=How.KEYWORD, owner=call.node, node=keyword.value
    )


def assigned(source: str) -> str:
    """An argument's source as it may stand behind the ``=`` of a statement: without brackets around
    it, several lines and ``:=`` want parentheses."""
    return f"({source})" if "\n" in source or ":=" in source else source


def renamed_options(script: Script, call: Call) -> frozenset[str]:
    """The options that the call gives by names which the target no longer knows."""
    ways = (
        script.api.successor(call.name, name)
        for name in call.keywords
        if script.api.accepts(call.name, name) is False
    )
    return frozenset(way.parameter for way in ways if isinstance(way, Rename | Build))
