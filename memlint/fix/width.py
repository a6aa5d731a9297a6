"""Lines that a fix made too long are wrapped, where the file wraps its own.

A file wraps if its longest line keeps to a usual width and some bracket of it spans lines. Then a
line that a fix made longer than that width becomes one argument a line, as black and ruff lay it
out. Lines that the fix did not touch, and files that do not wrap, stay as they are.
"""

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from memlint.fix.draft import Splice
from memlint.fix.splicing import between, spliced, split_lines
from memlint.source import Span

# The widths that formatters are set to.
_WIDTHS = (79, 88, 100, 120)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_OPENED = re.compile(r"[(\[{][ \t]*(?:#[^\r\n]*)?$")


def within_width(data: bytes, splices: list[Splice]) -> list[Splice]:
    """Return ``splices`` of the file ``data``, with new lines no wider than the file's own."""
    if not splices:
        return splices
    width = _width_of_file(data)
    if width is None or all(len(_body(line)) <= width for line in _touched(data, splices)):
        return splices
    before = data.decode("utf-8", "surrogatepass")
    old = split_lines(before)
    new = split_lines(spliced(data, splices).decode("utf-8", "surrogatepass"))
    known = set(old)
    indent = _indent_of(old)
    lines = [
        wrapped(line, width, indent) if len(_body(line)) > width and line not in known else line
        for line in new
    ]
    if lines == new or not _same_code("".join(new), "".join(lines)):
        return splices
    return between(before, "".join(lines))


@lru_cache(maxsize=1)
def _width_of_file(data: bytes) -> int | None:
    """Return ``width_of`` its lines; one fix of a file is shown after the other."""
    return width_of(split_lines(data.decode("utf-8", "surrogatepass")))


def _touched(data: bytes, splices: Sequence[Splice]) -> Iterator[str]:
    """Yield the new lines that ``splices`` write or change."""
    groups: list[tuple[int, int, list[Splice]]] = []
    for splice in splices:
        at = splice.span.start
        start = max(data.rfind(b"\n", 0, at), data.rfind(b"\r", 0, at)) + 1
        line = _LINE_END.search(data, splice.span.end)
        end = line.end() if line is not None else len(data)
        if groups and start < groups[-1][1]:
            start, before, inside = groups.pop()
            groups.append((start, max(before, end), [*inside, splice]))
        else:
            groups.append((start, end, [splice]))
    for start, end, inside in groups:
        moved = [
            Splice(Span(each.span.start - start, each.span.end - start), each.text)
            for each in inside
        ]
        yield from split_lines(spliced(data[start:end], moved).decode("utf-8", "surrogatepass"))


def _same_code(one: str, other: str) -> bool:
    """True if two texts are the same program to the last name and constant."""
    lines, others = split_lines(one), split_lines(other)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = zip(ast.parse(one).body, ast.parse(other).body, strict=True)
            return all(
                lines[_first(a) : a.end_lineno] == others[_first(b) : b.end_lineno]
                or ast.dump(a) == ast.dump(b)
                for a, b in pairs
            )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _first(node: ast.stmt) -> int:
    """Return the line, from 0, on which a statement begins with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def width_of(lines: Sequence[str]) -> int | None:
    """The width that a file keeps to; None where it wraps nothing, or follows no usual width."""
    bodies = [_body(line) for line in lines]
    if not any(_OPENED.search(body) for body in bodies):
        return None
    longest = max(map(len, bodies), default=0)
    return next((width for width in _WIDTHS if longest <= width), None)


def wrapped(line: str, width: int, indent: str) -> str:
    """``line`` with its outermost call over several lines, an argument each; as it is where it
    holds no call or its layout is not that of a whole statement or argument. A line of several
    arguments, whose call begins on another line, becomes one argument a line."""
    body = _body(line)
    newline = line[len(body) :] or "\n"
    start = len(body) - len(body.lstrip())
    margin, code = body[:start], body[start:]

    def row(margin: str, argument: str) -> str:
        one = f"{margin}{argument}"
        return one if len(one) <= width else _body(wrapped(one + newline, width, indent))

    arguments = _arguments(code)
    if arguments:
        return newline.join(row(margin, each) for each in arguments) + line[len(body) :]
    parts = _parts(code)
    if parts is None:
        return line
    head, arguments, tail = parts
    inner = margin + indent
    rows = [f"{margin}{head}", *(row(inner, each) for each in arguments), f"{margin}{tail}"]
    return newline.join(rows) + line[len(body) :]


def _parts(code: str) -> tuple[str, list[str], str] | None:
    """Return ``x = f(a, b)  # why`` as ``x = f(``, its arguments with commas, and ``)  # why``."""
    imported = re.fullmatch(r"(from [\w.]+ import )([^(#]+?)((?<!\s)\s*+#.*)?", code)
    if imported:
        names = [name.strip() for name in imported[2].split(",")]
        return f"{imported[1]}(", [f"{name}," for name in names], f"){imported[3] or ''}"
    tree, shift = _parsed(code)
    if tree is None:
        return None
    call = _outermost_call(tree)
    if call is None:
        return None
    data = code.encode()
    end = (call.end_col_offset or 0) - shift - 1
    first, rows = _split(call, data, end, shift)
    head = data[:first].decode().rstrip()
    if not head.endswith("(") or "," in rows:
        return None
    if isinstance(call.args[-1] if call.args else None, ast.GeneratorExp):
        rows[-1] = rows[-1].removesuffix(",")
    return head, rows, data[end:].decode()


def _arguments(code: str) -> list[str] | None:
    """Return ``a, b=c`` as ``a,`` and ``b=c,``; None for what is a statement, or one argument."""
    tree, shift = _parsed(code)
    if tree is None or not shift or "#" in code:
        return None
    (statement,) = tree.body
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) < 2:
        return None
    data = code.encode()
    _, rows = _split(call, data, len(data), shift)
    return None if "," in rows else rows


def _split(call: ast.Call, data: bytes, end: int, shift: int) -> tuple[int, list[str]]:
    """Return where the first argument of ``call`` starts, and each argument with a comma."""
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    starts = sorted(_start(node, data, shift) for node in nodes)
    pairs = zip(starts, [*starts[1:], end], strict=True)
    return starts[0], [
        data[first:last].decode().strip().rstrip(",").rstrip() + "," for first, last in pairs
    ]


def _parsed(code: str) -> tuple[ast.Module | None, int]:
    """The tree of a line, a statement or an argument, and how far its columns are shifted."""
    for before, after in (("", ""), ("f(", "\n)"), ("", "\n    pass")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(f"{before}{code}{after}"), len(before)
        except (SyntaxError, ValueError):
            continue
    return None, 0


def _outermost_call(tree: ast.Module) -> ast.Call | None:
    """Return the longest call of a line that has arguments to put on lines of their own."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.lineno == node.end_lineno == 1
        and (node.args or node.keywords)
        and not (len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp))
    ]
    return max(calls, key=lambda node: (node.end_col_offset or 0) - node.col_offset, default=None)


def _start(node: ast.expr | ast.keyword, data: bytes, shift: int) -> int:
    """Return where an argument begins: at its star or bracket, which its node may leave out."""
    start = node.col_offset - shift
    while start > 0 and data[start - 1 : start] in (b"(", b"*", b" "):
        # The bracket of a call, not one around a value.
        if re.search(rb"[\w\])]\($", data[:start]) is not None:
            break
        start -= 1
    return start + len(data[start:]) - len(data[start:].lstrip(b" "))


def _body(line: str) -> str:
    return line.rstrip("\r\n")


def _indent_of(lines: Sequence[str]) -> str:
    """By how much the file's brackets most often indent what is in them."""
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    opened = [_OPENED.search(_body(line)) is not None for line in lines]
    pairs = zip(opened, margins, margins[1:], strict=False)
    steps = Counter(inner.removeprefix(outer) for opens, outer, inner in pairs if opens)
    return next((step for step, _ in steps.most_common() if step), "    ")
