"""A case of a rule in two files: one part in a module of the project, the other in the script.

What is in the module is known, and has no place in the script: how long the module is changes
nothing of what is found.
"""

from __future__ import annotations

import ast
from random import Random
from typing import NamedTuple

from tests.rules.cases import Case

# Lines that the module has before all others.
_PADDING = "# what this module holds\n" * 400


class Halves(NamedTuple):
    """A script and the module that it imports."""

    script: str
    module: str

    @property
    def long_module(self) -> str:
        """The same module, with more lines and bytes than the script."""
        return _PADDING + self.module


def split(case: Case, random: Random) -> Halves | None:
    """Return a case in two files; None where it has nothing that could be moved."""
    try:
        tree = ast.parse(case.text)
    except SyntaxError:
        return None
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    holders = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = [one for one in tree.body if isinstance(one, holders)]
    rest = [one for one in tree.body if one not in imports and one not in defined]
    if any(getattr(one, "module", "") == "__future__" for one in imports) or not tree.body:
        return None
    at = random.randint(0, len(rest))
    moved, kept = (rest[:at], rest[at:]) if random.random() < 0.5 else (rest[at:], rest[:at])
    first = moved == rest[:at]
    form = random.choice(("function", "method", "instance"))
    read = [] if first else sorted(_names(kept, ast.Store))
    made = sorted(_names(moved, ast.Store)) if first else []
    lines = case.text.splitlines()
    head = [_text(lines, one) for one in imports]
    defined_text = [_text(lines, one) for one in defined]
    body = [_indented(_text(lines, one)) for one in moved] or ["    pass"]
    module = [*head, *defined_text, *_wrapped(form, body, read, made)]
    script = [*head, f"from parts import {', '.join(['Work', *(one.name for one in defined)])}"]
    calls = _calls(form, read, made)
    script += calls if first else []
    inside = not first and random.random() < 0.5 and not _has_await(kept)
    script += ["def main():", "    pass"] if inside else []
    for one in kept:
        text = _text(lines, one)
        script.append(_indented(text) if inside else text)
    if not first:
        script += [_indented(one) for one in calls] if inside else calls
    script += ["main()"] if inside else []
    return Halves("\n".join(script) + "\n", "\n".join(module) + "\n")


def _wrapped(form: str, body: list[str], read: list[str], made: list[str]) -> list[str]:
    """Return a definition of ``Work`` that runs ``body``."""
    if form == "function":
        return [f"def Work({', '.join(read)}):", *body, f"    return [{', '.join(made)}]"]
    name = "__init__" if form == "instance" else "run"
    method = [f"def {name}({', '.join(['self', *read])}):", *body]
    method += [f"    self.{one} = {one}" for one in made]
    return ["class Work:", *(_indented(one) for one in method)]


def _calls(form: str, read: list[str], made: list[str]) -> list[str]:
    """Return what runs ``Work`` and takes over what it makes."""
    given = ", ".join(read)
    if form == "function":
        return [f"[{', '.join(made)}] = Work({given})" if made else f"Work({given})"]
    first = (
        [f"work = Work({given})"] if form == "instance" else ["work = Work()", f"work.run({given})"]
    )
    return [*first, *(f"{one} = work.{one}" for one in made)]


def _has_await(statements: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Await) for one in statements for node in ast.walk(one))


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _text(lines: list[str], node: ast.stmt) -> str:
    return "\n".join(lines[_start(node) - 1 : node.end_lineno])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _names(statements: list[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    return {
        node.id
        for one in statements
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }
