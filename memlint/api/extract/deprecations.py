"""Deprecations that the code itself states: warnings that name a parameter, renaming decorators.

A warning counts for the parameter that its sentence is about: the one quoted before the words
"is deprecated" (or the first one quoted after "Passing"/"Using"). What warns in other words, or
from other places, is in the hand-written knowledge.
"""

import ast
import re
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef

_WARNS = {"warn", "warning", "warning_once", "warn_deprecated", "deprecate"}
_SAYS = re.compile(r"deprecated|will be removed", re.I)
_ABOUT = re.compile(
    r"(?<!for )(?:`|'|--)(?P<name>\w+)(?:=(?P<value>[^`]*))?(?:`|')?"
    r"(?:[^.`']|`[^`]*`){0,60}?\b(?:is|are|was|has been|have been|being)?\s*deprecated",
    re.I,
)
_WILL_GO = re.compile(r"(?:`)(?P<name>\w+)(?:=[^`]*)?`[^.`]{0,60}?will be removed", re.I)


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
            case _:
                pass


def is_deprecated(node: ast.ClassDef | Function, entry: Function | None) -> bool:
    """True if using ``node`` at all is deprecated: a decorator, or a warning given at once."""
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
        if name in ("deprecated", "_deprecated"):
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
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name not in _WARNS or not call.args:
        return None
    return "".join(
        part.value
        for part in ast.walk(call.args[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
