"""New expressions: their text in the file's terms, and parentheses where precedence needs them.

Parentheses are decided from the kinds of two nodes, the new expression and what surrounds the old
one. In doubt they are added: one pair too many reads oddly, one too few computes something else.
"""

import io
import os
import re
import tokenize
from collections.abc import Iterable, Mapping

import libcst as cst

from memlint.fix.outcome import FixError
from memlint.fix.spans import Tree, parse
from memlint.source import Span

_LINE = re.compile(r"\r\n|\r|\n")
_INDENT = re.compile(r"(?:    )*")

# How tightly an expression holds together; what is not listed is an atom.
_ATOM = 20
_BINDING: dict[type[cst.CSTNode], int] = {
    cst.Tuple: 0,
    cst.Yield: 0,
    cst.StarredElement: 0,
    cst.GeneratorExp: 0,
    cst.NamedExpr: 1,
    cst.Lambda: 2,
    cst.IfExp: 3,
    cst.Comparison: 7,
    cst.Await: 17,
    cst.Call: 18,
    cst.Attribute: 18,
    cst.Subscript: 18,
    cst.ConcatenatedString: 19,
}
_BOOLEAN: dict[type[cst.CSTNode], int] = {cst.Or: 4, cst.And: 5}
_UNARY: dict[type[cst.CSTNode], int] = {cst.Not: 6}
_BINARY: dict[type[cst.CSTNode], int] = {
    cst.BitOr: 8,
    cst.BitXor: 9,
    cst.BitAnd: 10,
    cst.LeftShift: 11,
    cst.RightShift: 11,
    cst.Add: 12,
    cst.Subtract: 12,
    cst.Multiply: 13,
    cst.Divide: 13,
    cst.FloorDivide: 13,
    cst.Modulo: 13,
    cst.MatrixMultiply: 13,
    cst.Power: 15,
}

# A position that takes any expression but a bare tuple, ``yield`` or ``:=``.
_DELIMITED = 2


def binding(node: cst.CSTNode) -> int:
    """Return how tightly ``node`` binds as it stands, its own parentheses included."""
    if isinstance(node, cst.BaseExpression) and node.lpar:
        return _ATOM
    return _bare_binding(node)


def _bare_binding(node: cst.CSTNode) -> int:
    """Return how tightly ``node`` binds without its own parentheses."""
    if isinstance(node, cst.BooleanOperation):
        return _BOOLEAN[type(node.operator)]
    if isinstance(node, cst.UnaryOperation):
        return _UNARY.get(type(node.operator), 14)
    if isinstance(node, cst.BinaryOperation):
        return _BINARY[type(node.operator)]
    return _BINDING.get(type(node), _ATOM)


def required(tree: Tree, node: cst.CSTNode) -> int:
    """Return how tightly source in the place of ``node`` must bind to need no parentheses."""
    if isinstance(node, cst.BaseExpression) and node.lpar:
        return 0
    parent = tree.parent(node)
    if isinstance(
        parent,
        cst.Arg
        | cst.Element
        | cst.DictElement
        | cst.Index
        | cst.Slice
        | cst.Assert
        | cst.Raise
        | cst.Param
        | cst.AnnAssign,
    ):
        starred = isinstance(parent, cst.Arg) and parent.star
        return 8 if starred else _DELIMITED
    if isinstance(parent, cst.Assign | cst.AugAssign | cst.Return | cst.Expr):
        return 0
    if isinstance(parent, cst.If | cst.While | cst.WithItem | cst.FormattedStringExpression):
        return _DELIMITED
    if isinstance(parent, cst.IfExp):
        return _DELIMITED if node is parent.orelse else 4
    if isinstance(parent, cst.BooleanOperation | cst.BinaryOperation | cst.UnaryOperation):
        return _bare_binding(parent) + 1
    if isinstance(parent, cst.Comparison | cst.ComparisonTarget):
        return 8
    if isinstance(parent, cst.Call | cst.Attribute | cst.Subscript):
        return 18
    return _ATOM


def parse_source(source: str) -> tuple[str, cst.BaseExpression]:
    """Return the expression ``source``, in parentheses if it needs them anywhere, and its node.

    FixError if it is no expression.
    """
    for text in (source.strip(), f"({source.strip()})"):
        try:
            return text, cst.parse_expression(text)
        except (cst.ParserSyntaxError, RecursionError):
            continue
    raise FixError(f"the new expression does not parse: {source!r}")


def fitted(source: str, least: int, *, callee: bool = False) -> str:
    """Return ``source``, in parentheses unless it binds at least as tightly as ``least``."""
    source, node = parse_source(source)
    number = isinstance(node, cst.Integer | cst.Float | cst.Imaginary)
    if binding(node) >= least and not (number and least >= 18 and not callee):
        return source
    return f"({source})"


def in_f_string(tree: Tree, node: cst.CSTNode) -> bool:
    """True if ``node`` lies in an f-string, where not every expression may be written."""
    return any(isinstance(above, cst.FormattedString) for above in tree.ancestors(node))


def check_f_string(tree: Tree, node: cst.CSTNode, text: str) -> None:
    """Refuse text that an f-string cannot hold before Python 3.12."""
    if in_f_string(tree, node) and (re.search(r"[\\#\r\n'\"]", text) or text.startswith("{")):
        raise FixError("it stands in an f-string, which cannot hold the new text")


def substituted(source: str, names: Mapping[str, str]) -> str:
    """Return ``source`` with each dotted name of ``names`` spelled as the file spells it."""
    names = {wanted: spelled for wanted, spelled in names.items() if wanted != spelled}
    if not names:
        return source
    tree = parse(source)
    changes: list[tuple[Span, str]] = []
    for node in (*tree.nodes(cst.Name), *tree.nodes(cst.Attribute)):
        if is_label(tree, node):
            continue
        spelled = names.get(dotted(node) or "")
        if spelled is not None:
            changes.append((tree.span(node), spelled))
    data = tree.data
    for span, spelled in sorted(changes, reverse=True):
        data = data[: span.start] + spelled.encode() + data[span.end :]
    return data.decode()


def is_label(tree: Tree, node: cst.CSTNode) -> bool:
    """True if ``node`` names an attribute, keyword or parameter and not a variable."""
    parent = tree.parent(node)
    return (
        (isinstance(parent, cst.Attribute) and parent.attr is node)
        or (isinstance(parent, cst.Arg) and parent.keyword is node)
        or isinstance(parent, cst.ImportAlias | cst.AsName | cst.ImportFrom)
    )


def dotted(node: cst.CSTNode | None) -> str | None:
    """Return ``a.b.c`` of a name or of attributes of a name; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        left = dotted(node.value)
        return None if left is None else f"{left}.{node.attr.value}"
    return None


def protected_lines(source: str) -> frozenset[int]:
    """The lines (0-based) of ``source`` that begin inside a string and may not be indented."""
    if not _LINE.search(source):
        return frozenset()
    inside: set[int] = set()
    began: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.STRING:
                inside.update(range(token.start[0], token.end[0]))
            elif tokenize.tok_name[token.type] in ("FSTRING_START", "TSTRING_START"):
                began.append(token.start[0])
            elif tokenize.tok_name[token.type] in ("FSTRING_END", "TSTRING_END"):
                inside.update(range(began.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError) as error:
        raise FixError(f"the new text does not parse: {source!r}") from error
    return frozenset(inside)


def reindented(source: str, prefix: str, *, indent: str, newline: str) -> str:
    """Return ``source``, written with four spaces a level, as lines of the file behind ``prefix``.

    The first line is not indented: it begins where the caller puts it.
    """
    protected = protected_lines(source)
    lines = _LINE.split(source)
    base = _base(line for at, line in enumerate(lines) if at and at not in protected)
    result = [lines[0]]
    for number, line in enumerate(lines[1:], 1):
        if number in protected or not line.strip():
            result.append(line)
            continue
        if base:
            # Written in the file itself, with the file's own levels.
            result.append(prefix + line[len(base) :])
            continue
        match = _INDENT.match(line)
        levels = len(match.group()) // 4 if match else 0
        result.append(prefix + indent * levels + line[levels * 4 :])
    return newline.join(result)


def _base(lines: Iterable[str]) -> str:
    """The indentation of the line from which text was taken, as the lines that follow it show."""
    follow = [line for line in lines if line.strip()]
    indents = [line[: len(line) - len(line.lstrip(" \t\f"))] for line in follow]
    common = os.path.commonprefix(indents)  # noqa: RUF071 (of letters)
    if not common or (follow[-1].lstrip(" \t\f")[0] in ")]}" and indents[-1] == common):
        return common
    # No bracket closes on a line of its own: the lines are a level deeper than what they continue.
    return common[:-1] if common[-1] == "\t" else common[:-4]
