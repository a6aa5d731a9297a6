"""What a configuration decides once it is made: its ``__post_init__``, cut down to its options.

What is left is Python of a few forms, which ``memlint.api.settled`` evaluates with the options of
a call: ``super()`` where the base class has its turn, assignments to ``self.option`` and ``if``.
Three dots stand for what no option decides (devices, environments, calls). Paths that raise are no
paths.
"""

import ast
from collections.abc import Iterator, Sequence

# Forms that are kept as they are, with what is inside them.
_FORMS = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Set)
_UNKNOWN = "..."


def settling(node: ast.ClassDef) -> str:
    """The text of ``__post_init__`` without all that decides no option; empty where nothing is."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__post_init__":
            lines = list(_reduced(part.body))
            return "" if lines == ["super()"] else "\n".join(lines)
    return ""


def _reduced(body: Sequence[ast.stmt], indent: str = "") -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.Raise():
                return
            case ast.Expr(value=call) | ast.Return(value=ast.Call() as call) if (
                ast.unparse(call) == "super().__post_init__()"
            ):
                yield f"{indent}super()"
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                yield from _assigned(name, statement.value, indent)
            case ast.If():
                yield from _branches(statement, indent)
            case _:
                for name in _written(statement):
                    yield f"{indent}self.{name} = {_UNKNOWN}"


def _branches(node: ast.If, indent: str) -> Iterator[str]:
    inner = f"{indent} "
    body, otherwise = (list(_reduced(part, inner)) for part in (node.body, node.orelse))
    if body or otherwise:
        yield f"{indent}if {_expression(node.test)}:"
        yield from body or [f"{inner}pass"]
    if otherwise:
        yield f"{indent}else:"
        yield from otherwise


def _assigned(name: str, value: ast.expr, indent: str) -> Iterator[str]:
    match value:
        case ast.Call(args=[ast.Attribute(attr=same)], keywords=[]) if same == name:
            # An enumeration of its own words: its members equal them.
            return
        case ast.Attribute(value=ast.Attribute(attr=same), attr="value") if same == name:
            return
    yield f"{indent}self.{name} = {_expression(value)}"


def _expression(node: ast.expr) -> str:
    """The expression, with three dots for each part that is not about options and literals."""
    match node:
        case ast.Constant() | ast.Attribute(value=ast.Name(id="self")):
            return ast.unparse(node)
        case ast.Call(func=ast.Name(id="len" | "hasattr" as name), args=[of, *rest], keywords=[]):
            more = "".join(f", {ast.unparse(part)}" for part in rest)
            return f"{name}({_expression(of)}{more})"
        case ast.Subscript(value=of, slice=ast.Constant()):
            return f"{_expression(of)}[{ast.unparse(node.slice)}]"
        case _ if isinstance(node, _FORMS):
            kept = _Cut().generic_visit(ast.parse(ast.unparse(node), mode="eval").body)
            return f"({ast.unparse(kept)})"
    return _UNKNOWN


class _Cut(ast.NodeTransformer):
    """Cuts expressions down in place."""

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr):
            return node
        return ast.parse(_expression(node), mode="eval").body


def _written(statement: ast.stmt) -> Iterator[str]:
    """Yield the options that a statement of another form may change."""
    seen: dict[str, None] = {}
    for inner in ast.walk(statement):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                seen[name] = None
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as of)):
                # ``self.option.setdefault(...)``
                seen[of.attr] = None
    yield from seen
