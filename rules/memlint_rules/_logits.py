"""Where a script's own code turns a causal LM's logits into log-probabilities or a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from memlint.rule import Script

# Methods that leave logits what they are.
_KEEPING = frozenset({"float", "to", "contiguous", "view", "reshape", "type", "double"})
_UPCASTS = frozenset({"float", "double"})
_FLOAT32 = ("torch.float32", "torch.float", "torch.float64")
_LAST = (-1, 2)


class Chain:
    """How an expression comes from ``model(...).logits``.

    source: the ``.logits`` attribute. names: names on the way. shifted: the last position is cut
    off, as only next-token prediction does. upcast: it passes through float32.
    """

    def __init__(self, source: ast.Attribute) -> None:
        self.source = source
        self.names: list[ast.Name] = []
        self.shifted = False
        self.upcast = False


def chain_of(script: Script, node: ast.expr, depth: int = 2) -> Chain | None:
    """The chain from the logits of all positions to ``node``; None where that is not certain."""
    match node:
        case ast.Attribute(attr="logits"):
            return Chain(node)
        case ast.Name():
            return _through_name(script, node, depth)
        case ast.Subscript(value=inner, slice=index):
            chain = chain_of(script, inner, depth)
            kept = _positions_kept(index)
            if chain is None or kept is None:
                return None
            chain.shifted |= kept == "shifted"
            return chain
        case ast.BinOp(left=inner, op=ast.Div() | ast.Mult()):
            return chain_of(script, inner, depth)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPING:
            chain = chain_of(script, inner, depth)
            if chain is not None:
                dtypes = [script.name(one) for one in node.args]
                chain.upcast |= method in _UPCASTS or any(one in _FLOAT32 for one in dtypes)
            return chain
    return None


def _positions_kept(index: ast.expr) -> str | None:
    """What a subscript keeps of the positions: ``all``, ``shifted``, or None: one, or unknown."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    kept = "all"
    for place, part in enumerate(parts):
        match part:
            case ast.Slice(upper=ast.UnaryOp(op=ast.USub())):
                kept = "shifted"
            case ast.Slice():
                pass
            case ast.Constant(value=value) if value is None or value is ...:
                pass
            case ast.Constant(value=int()) if place == 0:
                pass  # one row of the batch
            case ast.Name() if place == 0 and len(parts) > 1:
                pass  # one row of the batch, or some
            case _:
                return None
    return kept


def _through_name(script: Script, name: ast.Name, depth: int) -> Chain | None:
    """Through the only assignment of a local name, or what every caller passes for a parameter."""
    function = script.function(name)
    bound = [
        node
        for node in script.nodes(ast.Name)
        if node.id == name.id
        and isinstance(node.ctx, ast.Store)
        and script.function(node) is function
    ]
    parameters = _parameters(function)
    if name.id in parameters:
        if bound or depth == 0 or not isinstance(function, ast.FunctionDef):
            return None
        return _through_callers(script, function, parameters.index(name.id), name, depth)
    before = [one for one in bound if script.span(one).end <= script.span(name).start]
    # ``logits = logits.float()``: the last one before the use, in one straight line.
    for target in sorted(before, key=script.span, reverse=True):
        statement = script.parent(target)
        if not isinstance(statement, ast.Assign) or statement.targets != [target]:
            return None
        if script.span(statement).end > script.span(name).start:
            continue
        if not _in_line(script, statement, name):
            return None
        chain = chain_of(script, statement.value, depth)
        if chain is not None:
            chain.names.append(name)
        return chain
    return None


def _in_line(script: Script, statement: ast.stmt, use: ast.AST) -> bool:
    """Whether the block that holds ``statement`` holds ``use`` too."""
    return script.parent(statement) in set(script.ancestors(use))


def _parameters(function: ast.AST | None) -> list[str]:
    if not isinstance(function, ast.FunctionDef):
        return []
    return [one.arg for one in (*function.args.posonlyargs, *function.args.args)]


def _through_callers(
    script: Script, function: ast.FunctionDef, index: int, name: ast.Name, depth: int
) -> Chain | None:
    method = isinstance(script.parent(function), ast.ClassDef)
    found: Chain | None = None
    for call in script.nodes(ast.Call):
        match call.func:
            case ast.Name(id=called) | ast.Attribute(attr=called) if called == function.name:
                pass
            case _:
                continue
        place = index - method
        given = {one.arg: one.value for one in call.keywords}.get(name.id)
        if given is None and 0 <= place < len(call.args):
            given = call.args[place]
        chain = chain_of(script, given, depth - 1) if given is not None else None
        if chain is None:
            return None
        found = chain
    return found


class Gathered(NamedTuple):
    """Log-probabilities of given tokens, gathered from the log-softmax of all.

    only: nothing but ``gather`` is done with that log-softmax.
    """

    node: ast.Call
    chain: Chain
    only: bool


def gathered_logprobs(script: Script) -> Iterator[Gathered]:
    """Every ``log_softmax`` over the vocabulary of which one entry a token is gathered."""
    for node in script.nodes(ast.Call):
        inner = _log_softmax_input(script, node)
        if inner is None:
            continue
        uses = list(_uses(script, node))
        gathers = [_is_gather(script, use) for use in uses]
        if not any(gathers) and not any(_is_indexed(script, use) for use in uses):
            continue
        chain = chain_of(script, inner)
        if chain is not None:
            yield Gathered(node, chain, all(gathers))


def _log_softmax_input(script: Script, node: ast.Call) -> ast.expr | None:
    """What a log-softmax over the last dimension is taken of."""
    call = script.call_at(node)
    name = call.name if call is not None else script.name(node.func)
    arguments = list(node.args)
    if name in ("torch.nn.functional.log_softmax", "torch.log_softmax"):
        inner = arguments.pop(0) if arguments else None
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "log_softmax":
        inner = node.func.value
    else:
        return None
    keywords = {one.arg: one.value for one in node.keywords}
    dim = keywords.get("dim") or (arguments[0] if arguments else None)
    return inner if dim is not None and script.python(dim) in _LAST else None


def _uses(script: Script, node: ast.expr) -> Iterator[ast.expr]:
    """The log-softmax itself, or every later use of the name that it is bound to."""
    statement = script.parent(node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=bound)]):
            function = script.function(node)
            for use in script.nodes(ast.Name):
                if (
                    use.id == bound
                    and isinstance(use.ctx, ast.Load)
                    and script.function(use) is function
                ):
                    yield use
        case _:
            yield node


def _is_indexed(script: Script, use: ast.expr) -> bool:
    """``use[torch.arange(rows), tokens]``."""
    match script.parent(use):
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.Call() as rows, ast.Name()])):
            return value is use and script.name(rows.func) == "torch.arange"
    return False


def _is_gather(script: Script, use: ast.expr) -> bool:
    """Whether one entry a token is taken from ``use``."""
    parent = script.parent(use)
    while isinstance(parent, ast.Subscript) and parent.value is use:
        if _positions_kept(parent.slice) is None:
            return False
        use, parent = parent, script.parent(parent)
    match parent:
        case ast.Attribute(attr="gather", value=value) if value is use:
            call = script.parent(parent)
            arguments = call.args if isinstance(call, ast.Call) else []
        case ast.Call(args=[first, *arguments]) if first is use:
            call = parent
            if script.name(call.func) != "torch.gather":
                return False
        case _:
            return False
    if not isinstance(call, ast.Call):
        return False
    keywords = {one.arg: one.value for one in call.keywords}
    dim = keywords.get("dim") or (arguments[0] if arguments else None)
    rest = arguments if "dim" in keywords else arguments[1:]
    index = keywords.get("index") or (rest[0] if rest else None)
    if dim is None or index is None or script.python(dim) not in _LAST:
        return False
    return _is_one_column(index)


def _is_one_column(index: ast.expr) -> bool:
    """``tokens.unsqueeze(-1)`` or ``tokens[..., None]``."""
    match index:
        case ast.Call(func=ast.Attribute(attr="unsqueeze")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "long" | "clone")):
            return _is_one_column(inner)
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Constant(value=None)])):
            return True
    return False
