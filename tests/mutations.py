"""Mutations of training scripts, drawn at random."""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Callable, Sequence

_ODD_VALUES = (
    "None", "True", "False", "0", "1", "-1", "4096", "'x'", "value", "args.value", "f'{name}'",
    "(a if b else c)", "(\n        1\n        + 2\n    )", "lambda row: row", "[1, 2]", "{'k': 1}",
    "(limit := 512)", "int(os.environ['N'])", "not flag", "torch.bfloat16", "'bf16'", "1e-4",
)  # fmt: skip


Mutation = Callable[[str, ast.Module, random.Random], str | None]


def _statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def _rows(text: str, node: ast.stmt) -> tuple[list[str], int, int]:
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return lines, first - 1, node.end_lineno or node.lineno


def _delete(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    lines, start, end = _rows(text, draw.choice(_statements(tree)))
    return "".join(lines[:start] + lines[end:])


def _double(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    lines, start, end = _rows(text, draw.choice(_statements(tree)))
    return "".join(lines[:end] + lines[start:end] + lines[end:])


def _swap(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    bodies = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    body = draw.choice([each for each in bodies if len(each) > 1] or [[]])
    if not body:
        return None
    at = draw.randrange(len(body) - 1)
    lines, start, middle = _rows(text, body[at])
    _, second, end = _rows(text, body[at + 1])
    return "".join(
        lines[:start] + lines[second:end] + lines[middle:second] + lines[start:middle] + lines[end:]
    )


def _wrap(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    lines, start, end = _rows(text, draw.choice(_statements(tree)))
    indent = re.match(r"\s*", lines[start])
    assert indent is not None
    before, after = draw.choice(
        [
            ("if flag:", ""),
            ("try:", "except Exception as error:\n    print(error)"),
            ("with torch.no_grad():", ""),
            ("for step in range(3):", ""),
            ("def helper(model, args, value=None):", "helper(model, args)"),
            ("if False:", "else:\n    pass"),
        ]
    )
    inner = ["    " + line if line.strip() else line for line in lines[start:end]]
    tail = [indent[0] + each + "\n" for each in after.split("\n")] if after else []
    return "".join([*lines[:start], indent[0] + before + "\n", *inner, *tail, *lines[end:]])


def _keywords(tree: ast.Module) -> list[tuple[ast.Call, ast.keyword]]:
    return [
        (node, keyword)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg
    ]


def offsets(text: str) -> list[int]:
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _splice(text: str, node: ast.expr | ast.keyword, new: str) -> str:
    starts = offsets(text)
    data = text.encode()
    start = starts[node.lineno - 1] + node.col_offset
    end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
    return (data[:start] + new.encode() + data[end:]).decode()


def _odd_value(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    found = _keywords(tree)
    return _splice(text, draw.choice(found)[1].value, draw.choice(_ODD_VALUES)) if found else None


def _unpacked(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    found = _keywords(tree)
    if not found:
        return None
    _, keyword = draw.choice(found)
    value = ast.get_source_segment(text, keyword.value) or "None"
    return _splice(text, keyword, f'**{{"{keyword.arg}": {value}}}')


def _hoisted(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    """``f(a=1)`` becomes ``options = dict(a=1)`` above and ``f(**options)``."""
    simple = [
        (statement, keyword)
        for statement in _statements(tree)
        if isinstance(statement, ast.Assign | ast.Expr) and isinstance(statement.value, ast.Call)
        for keyword in statement.value.keywords
        if keyword.arg
    ]
    if not simple:
        return None
    statement, keyword = draw.choice(simple)
    value = ast.get_source_segment(text, keyword.value) or "None"
    changed = _splice(text, keyword, "**options")
    lines = changed.splitlines(keepends=True)
    made = draw.choice(
        [
            f"options = dict({keyword.arg}={value})",
            f'options = {{"{keyword.arg}": {value}}}',
            f'options = {{}}; options["{keyword.arg}"] = {value}',
        ]
    )
    if "\n" in value:
        return None
    indent = " " * statement.col_offset
    return "".join(
        [*lines[: statement.lineno - 1], f"{indent}{made}\n", *lines[statement.lineno - 1 :]]
    )


def _set_later(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    assigned = [
        (statement, keyword)
        for statement in _statements(tree)
        if isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Call)
        for keyword in statement.value.keywords
        if keyword.arg
    ]
    if not assigned:
        return None
    statement, keyword = draw.choice(assigned)
    lines, _, end = _rows(text, statement)
    target = statement.targets[0]
    assert isinstance(target, ast.Name)
    line = (
        f"{' ' * statement.col_offset}{target.id}.{keyword.arg} = {draw.choice(_ODD_VALUES[:10])}\n"
    )
    return "".join([*lines[:end], line, *lines[end:]])


def _comment(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    lines = text.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    body = lines[at].rstrip("\n")
    mark = f"# note {draw.randrange(10**6)}"
    if draw.random() < 0.5:
        lines[at] = f"{body}  {mark}\n"
    else:
        indent = re.match(r"\s*", body)
        assert indent is not None
        lines[at] = f"{indent[0]}{mark}\n{body}\n"
    return "".join(lines)


def _over_lines(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    """An option on a line of its own, with a comment behind it."""
    found = _keywords(tree)
    if not found:
        return None
    _, keyword = draw.choice(found)
    segment = ast.get_source_segment(text, keyword)
    return _splice(text, keyword, f"\n    {segment}  # why {draw.randrange(10**6)}\n    ")


def _value_over_lines(text: str, tree: ast.Module, draw: random.Random) -> str | None:
    found = _keywords(tree)
    if not found:
        return None
    _, keyword = draw.choice(found)
    segment = ast.get_source_segment(text, keyword.value)
    return _splice(text, keyword.value, f"{segment}\n        if ready else None")


MUTATIONS: Sequence[Mutation] = (
    _delete, _double, _swap, _wrap, _odd_value, _odd_value, _unpacked, _hoisted, _set_later,
    _comment, _comment, _over_lines, _value_over_lines,
)  # fmt: skip


def mutate(text: str, draw: random.Random) -> str | None:
    """``text`` after one to four mutations; None where what came out does not parse."""
    for _ in range(draw.randrange(1, 5)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
            changed = draw.choice(MUTATIONS)(text, tree, draw) if tree.body else None
            if changed is not None and changed != text:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ast.parse(changed)
                text = changed
        except (SyntaxError, ValueError, UnicodeDecodeError, IndexError):
            continue
    return text
