"""What sums add up and what statements bind, as it is written; what expressions are made of."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from memlint.engine.name_uses import Loop, Turn
from memlint.engine.nodes import targets_of, walk
from memlint.engine.tree import Tree
from memlint.engine.values import FunctionNode
from memlint.source.record import NamedTuple

Growth = ast.Assign | ast.AugAssign
Store = ast.Assign | ast.AugAssign | ast.AnnAssign


class Addition(NamedTuple):
    """``total += loss``, ``total = total + loss``. target: what grows. addend: what is added."""

    statement: Growth
    target: ast.expr
    addend: ast.expr


def additions_in(tree: Tree, through: frozenset[str]) -> Iterator[Addition]:
    """Yield where something is added to what a name, an attribute or an item holds, by itself or by
    methods ``through`` which it is computed."""
    return _additions((*tree.nodes(ast.AugAssign), *tree.nodes(ast.Assign)), through)


def _additions(nodes: Iterable[ast.AST], through: frozenset[str]) -> Iterator[Addition]:
    for node in nodes:
        match node:
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                if not isinstance(value, ast.Constant):
                    yield Addition(node, target, value)
            case ast.Assign(
                targets=[ast.Name() | ast.Attribute() as target],
                value=ast.BinOp(op=ast.Add(), left=left, right=right),
            ):
                written = ast.unparse(target)
                sides = [
                    any(ast.unparse(one) == written for one in terms_of(side, through))
                    for side in (left, right)
                ]
                if sides[0] is not sides[1]:
                    yield Addition(node, target, right if sides[0] else left)


def attributes_grown(method: FunctionNode, given: str, through: frozenset[str]) -> set[str]:
    """The attributes of its object to which a method adds what it is given under a name."""
    if any(one.id == given and isinstance(one.ctx, ast.Store) for one in names_in(method)):
        return set()
    grown = [
        one.target
        for one in _additions(walk([method]), through)
        if any(ast.unparse(part) == given for part in terms_of(one.addend, through))
    ]
    return {one.attr for one in grown if isinstance(one, ast.Attribute)}


def attributes_bound(method: FunctionNode, through: frozenset[str]) -> set[str]:
    """The attributes that a method sets anew, to what is no sum of them."""
    grown = [one.target for one in _additions(walk([method]), through)]
    stores = [one for one in walk([method]) if isinstance(one, ast.Attribute)]
    return {one.attr for one in stores if isinstance(one.ctx, ast.Store) and one not in grown}


def source_of(node: ast.expr, methods: Collection[str]) -> str | None:
    """The variable behind items, attributes and ``methods``: ``raw`` of ``raw["train"].map(f)``."""
    match node:
        case ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return source_of(inner, methods)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in methods:
            return source_of(inner, methods)
        case ast.Name(id=name):
            return name
    return None


class Product(NamedTuple):
    """``[prompt] * count``, ``prompts * count``, ``[p (for p in prompts) for _ in range(count)]``.
    repeated: what is written of what is repeated."""

    node: ast.expr
    repeated: str
    times: ast.expr


def products_in(tree: Tree) -> Iterator[Product]:
    """Yield where lists are repeated. node: of a loop that appends, the list."""
    for loop in tree.nodes(ast.For):
        match loop:
            case ast.For(
                target=ast.Name(id=turn),
                iter=ast.Call(func=ast.Name(id="range"), args=[*_, count]),
                body=[ast.Expr(ast.Call(ast.Attribute(rows, attr="append"), args=[one]))],
            ) if _is_same(one, turn):
                yield Product(rows, tree.text(one), count)
    for node in tree.nodes(ast.BinOp):
        match node:
            case ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=count):
                yield Product(node, name, count)
            case ast.BinOp(left=ast.List(), op=ast.Mult(), right=count):
                yield Product(node, tree.text(tree.statement(node)), count)
    for made in tree.nodes(ast.ListComp):
        match made.generators:
            case [
                *outer,
                ast.comprehension(
                    target=ast.Name(id=turn),
                    iter=ast.Call(func=ast.Name(id="range"), args=[*_, count]),
                ),
            ] if len(outer) == 1 or (not outer and _is_same(made.elt, turn)):
                yield Product(made, tree.text(outer[0].iter if outer else made.elt), count)


def _is_same(value: ast.expr, turn: str) -> bool:
    """True if a value is the same in each turn of a comprehension, whose counter is ``turn``."""
    parts = walk([value])
    return not any(isinstance(one, ast.Call) or getattr(one, "id", "") == turn for one in parts)


class ConfigAssignment(NamedTuple):
    """``model.config.option = value``."""

    option: str
    statement: ast.Assign
    model: ast.expr
    value: ast.expr


def config_assignments_in(tree: Tree) -> Iterator[ConfigAssignment]:
    """Yield where an option of a model's configuration is set."""
    for node in tree.nodes(ast.Assign):
        match node.targets:
            case [ast.Attribute(attr=name, value=ast.Attribute(value=model, attr="config"))]:
                yield ConfigAssignment(name, node, model, node.value)


def divisors_of(loop: Turn, loss: ast.expr) -> Iterator[ast.expr]:
    """Yield what a loop divides its loss by: ``4`` of ``loss /= 4``, ``(loss / 4).backward()``."""
    match loss:
        case ast.BinOp(op=ast.Div(), right=divisor):
            yield divisor
    name = loss.id if isinstance(loss, ast.Name) else None
    for node in walk(loop.body):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.BinOp(op=ast.Div(), right=by)):
                yield from [by] if bound == name else []
            case ast.AugAssign(target=ast.Name(id=bound), op=ast.Div(), value=by):
                yield from [by] if bound == name else []


def root_of(node: ast.expr, *, of_items: bool = True) -> ast.Name | None:
    """``self`` of ``self.losses[0]``; None without a name, or behind an unwanted item."""
    while isinstance(node, ast.Attribute) or (of_items and isinstance(node, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def stores_in(tree: Tree) -> dict[str, list[Store]]:
    """The assignments to each name, attribute and item, as it is written."""
    found: dict[str, list[Store]] = defaultdict(list)
    for kind in (ast.Assign, ast.AugAssign, ast.AnnAssign):
        for node in tree.nodes(kind):
            assert isinstance(node, Store)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in _texts(tree, target):
                    found[name].append(node)
    return found


def _texts(tree: Tree, target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _texts(tree, one)
    else:
        yield tree.text(target)


def changes_in_place(statement: Store) -> bool:
    """True if a statement changes what its target holds: ``total += loss``."""
    return isinstance(statement, ast.AugAssign)


def target_named(statement: ast.AST | None, name: str) -> ast.expr | None:
    """A name among the targets of an assignment; None for other statements."""
    targets: list[ast.expr] = []
    if isinstance(statement, Store):
        targets += statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:  # grows meanwhile
        if isinstance(target, ast.Name) and target.id == name:
            return target
        targets += getattr(target, "elts", [])
    return None


def binds_as_target(tree: Tree, loop: Loop, name: str) -> bool:
    """True if a loop binds a name anew at the head of every turn."""
    return not isinstance(loop, ast.While) and name in _texts(tree, loop.target)


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that an assignment binds; none for other statements."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    return [one.id for one in names_in(statement) if isinstance(one.ctx, ast.Store)]


def deletes_of(tree: Tree) -> list[str]:
    """What ``del`` statements delete, as it is written."""
    return [tree.text(target) for one in tree.nodes(ast.Delete) for target in one.targets]


def own_object(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The name of a method's first parameter; empty where it has none."""
    return function.args.args[0].arg if function.args.args else ""


# -- what expressions are made of ------------------------------------------------------------------


def contents_of(node: ast.expr) -> list[ast.expr]:
    """What a tuple, list or dict display holds; else the expression itself."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return [inner for part in parts for inner in contents_of(part)]
    return [node]


def terms_of(node: ast.expr, through: frozenset[str]) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and attributes that arithmetic and the methods ``through`` compute a value
    from: ``loss`` of ``loss.mean() / steps``, and ``steps``."""
    match node:
        case ast.Name() | ast.Attribute():
            yield node
        case ast.BinOp(left=left, right=right):
            yield from terms_of(left, through)
            yield from terms_of(right, through)
        case ast.UnaryOp(operand=operand):
            yield from terms_of(operand, through)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in through:
            yield from terms_of(inner, through)


def scaled_terms(node: ast.expr, through: frozenset[str]) -> Iterator[ast.Name | ast.Attribute]:
    """The same without numbers: ``loss`` of ``scaler.scale(loss / steps)``."""
    match node:
        case ast.Name() | ast.Attribute():
            yield node
        case ast.BinOp(op=ast.Div(), left=left):
            yield from scaled_terms(left, through)
        case (
            ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=scaled)
            | ast.BinOp(op=ast.Mult(), left=scaled, right=ast.Constant())
        ):
            yield from scaled_terms(scaled, through)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from scaled_terms(left, through)
            yield from scaled_terms(right, through)
        case (
            ast.UnaryOp(op=ast.USub(), operand=scaled)
            | ast.Call(func=ast.Name(id="sum"), args=[scaled])
            | ast.Call(
                func=ast.Attribute(attr="scale" | "stack" | "cat" | "concat"), args=[scaled, *_]
            )
        ):
            yield from scaled_terms(scaled, through)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in through:
            yield from scaled_terms(inner, through)


_PAIR = 2


def sources_of_turns(tree: Tree, node: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what the loops and comprehensions around an expression go over whose targets it names,
    and whether these keep what it is: in a list, a dict, or a comprehension."""
    statement = tree.statement(node)
    kept = not all(isinstance(one, ast.Name) for one in targets_of(statement))
    kept = kept or (isinstance(statement, ast.Expr) and "append" in tree.text(statement))
    names = {one.id for one in names_in(node)}
    for around in tree.ancestors(node):
        for one in getattr(around, "generators", [around] if isinstance(around, ast.For) else []):
            if not names.isdisjoint(each.id for each in names_in(one.target)):
                yield one.iter, kept or one is not around


def taken_apart(tree: Tree) -> Iterator[ast.expr]:
    """Yield what is indexed, or gone through in pairs, where nothing is asked first."""
    found = [one.value for one in tree.nodes(ast.Subscript)]
    loops = [(one.target, one.iter) for one in tree.nodes(ast.For)]
    loops += [(one.target, one.iter) for one in tree.nodes(ast.comprehension)]
    found += [gone for target, gone in loops if len(getattr(target, "elts", ())) == _PAIR]
    for node in found:
        if tree.enclosing(node, ast.If, ast.IfExp, ast.Try) is None:
            yield node


def names_in(*nodes: ast.AST) -> list[ast.Name]:
    """The names at nodes and below them."""
    return [one for one in walk(nodes) if isinstance(one, ast.Name)]


def operands_in(*nodes: ast.AST) -> list[ast.Name | ast.Attribute]:
    """The names and attributes at nodes and below them."""
    return [one for one in walk(nodes) if isinstance(one, ast.Name | ast.Attribute)]


def returned_losses(tree: Tree, function: ast.AST) -> Iterator[ast.expr]:
    """Yield the names of the losses that a function returns: ``loss`` of ``(loss, outputs) if
    return_outputs else loss`` and of ``{"loss": loss}``."""
    for node in tree.nodes(ast.Return):
        if tree.function(node) is function:
            yield from _losses(node.value)


def _losses(returned: ast.expr | None) -> Iterator[ast.expr]:
    match returned:
        case ast.IfExp(body=body, orelse=other):
            yield from _losses(body)
            yield from _losses(other)
        case ast.Tuple(elts=[first, *_]):
            yield from _losses(first)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "loss":
                    yield value
        case ast.BinOp(left=left, right=right):
            yield from _losses(left)
            yield from _losses(right)
        case ast.Name() | ast.Attribute():
            yield returned


def starts_of(call: ast.Call) -> tuple[ast.expr, ...]:
    """What backward starts from: ``loss`` of ``loss.backward()``, ``accelerator.backward(loss)``"""
    if call.args:
        return tuple(call.args)
    return (call.func.value,) if isinstance(call.func, ast.Attribute) else ()


def written(node: ast.AST) -> str:
    """An expression of any file as it may be written."""
    return ast.unparse(node)


def turns_alike(loop: ast.AST) -> ast.expr | None:
    """How often a loop over a ``range`` turns, where no turn knows which it is."""
    inner: list[ast.AST]
    match loop:
        case ast.For(target=ast.Name(id=turn), iter=ast.Call(func=func, args=[times]), body=body):
            inner = [*body]
        case ast.ListComp(
            elt=item,
            generators=[
                ast.comprehension(target=ast.Name(id=turn), iter=ast.Call(func=func, args=[times]))
            ],
        ):
            inner = [item]
        case _:
            return None
    known = any(one.id == turn for one in names_in(*inner))
    return None if known or getattr(func, "id", "") != "range" else times
