"""Deprecations that the code itself states: warnings that name a parameter, renaming decorators.

A warning counts for the parameter that its sentence is about: the one quoted before the words
"is deprecated" (or the first one quoted after "Passing"/"Using"). What warns in other words, or
from other places, is in the hand-written knowledge.
"""

import ast
import re
from collections.abc import Iterator

from memlint.api.extract.wheel import strings

Function = ast.FunctionDef | ast.AsyncFunctionDef

_WARNS = {"warn", "warning", "warning_once", "warn_deprecated", "deprecate"}
_SAYS = re.compile(r"deprecated|will be removed", re.I)
_ABOUT = re.compile(
    r"(?<!for )(?:`|'|--)(?P<name>\w+)(?:=(?P<value>[^`]*))?(?:`|')?"
    r"(?:[^.`']|`[^`]*`){0,60}?\b(?:is|are|was|has been|have been|being)?\s*deprecated",
    re.I,
)
_WILL_GO = re.compile(r"(?:`)(?P<name>\w+)(?:=[^`]*)?`[^.`]{0,60}?will be removed", re.I)


def is_named(node: ast.expr, *names: str) -> bool:
    """True if an expression, or what it calls, is one of these names or ends in one."""
    if isinstance(node, ast.Call):
        node = node.func
    return getattr(node, "attr", getattr(node, "id", "")) in names


def deprecated_parameters(node: Function, parameters: set[str]) -> Iterator[str]:
    """Parameters of ``node`` (or fields of its class) that it warns about."""
    for text in _warnings(node):
        for pattern in (_ABOUT, _WILL_GO):
            match = pattern.search(text)
            if match is not None:
                if match["name"] in parameters and not _is_of_value(match, text):
                    yield match["name"]
                break


def _is_of_value(match: re.Match[str], text: str) -> bool:
    """True if the warning is about one value only: ``loss_type='x'``, or "as a string"."""
    value = match.groupdict().get("value")
    return bool(value and value[:1] in "'\"") or " as a string " in match[0]


def renamed_keywords(node: Function) -> Iterator[str]:
    """Old keyword names that a decorator still takes for ``node``."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="deprecate_kwarg"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name


def is_deprecated(node: ast.ClassDef | Function, entry: Function | None) -> bool:
    """True if using ``node`` at all is deprecated: a decorator, or a warning given at once."""
    for decorator in node.decorator_list:
        if is_named(decorator, "deprecated", "_deprecated"):
            return True
    if entry is None:
        return False
    for statement in entry.body[:3]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            text = _text(statement.value)
            if text is not None and _SAYS.search(text):
                quoted = re.findall(r"`(\w+)`", text)
                own = node.name
                return own in text or not quoted
    return False


def _warnings(node: Function) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            text = _text(inner)
            if text is not None and _SAYS.search(text):
                yield text


def _text(call: ast.Call) -> str | None:
    if not is_named(call, *_WARNS) or not call.args:
        return None
    return "".join(strings(call.args[0]))
