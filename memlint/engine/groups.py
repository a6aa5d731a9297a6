"""How parameters are parted into groups for an optimizer, as it is written."""

import ast
from collections.abc import Iterator

from memlint.engine.scopes import Flow

_READERS = ("parameters", "named_parameters")
# Functions that hand on what they are given.
_SAME = ("list", "tuple", "iter", "filter")


def conditions_of(flow: Flow, node: ast.expr) -> Iterator[str]:
    """The condition under which a parameter is in each group: empty for all, ``?`` unknown."""
    node = _written(flow, node)
    match node:
        case ast.List(elts=[first, *_] as groups) if isinstance(first, ast.Dict):
            for group in groups:
                yield from conditions_of(flow, _parameters_of(group))
        case (
            ast.ListComp(generators=[loop])
            | ast.GeneratorExp(generators=[loop])
            | ast.DictComp(generators=[loop])
        ):
            (inner, *_) = conditions_of(flow, loop.iter)
            tests = [test for test in loop.ifs if not ast.unparse(test).endswith(".requires_grad")]
            yield " and ".join(map(_said, tests)) if not inner else "?"
        case ast.Call(func=ast.Attribute(attr="items" | "values", value=ast.Name() as named)):
            yield from conditions_of(flow, named)
        case ast.Call(func=ast.Attribute(attr=name, value=model), args=[]) if name in _READERS:
            yield "" if _is_whole(model) else "?"
        case ast.Call(func=ast.Name(id=name), args=[*_, source]) if name in _SAME:
            whole = name != "filter" or "requires_grad" in ast.unparse(node.args[0])
            yield from conditions_of(flow, source) if whole else ("?",)
        case _:
            yield "?"


# What a comparison is the opposite of.
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.NotEq: ast.Eq, ast.NotIn: ast.In,
}  # fmt: skip


def _said(test: ast.expr) -> str:
    """A condition as it is written, ``not x >= 2`` for ``x < 2``."""
    match test:
        case ast.Compare(left, [op], others) if type(op) in _OPPOSITES:
            return f"not {ast.unparse(ast.Compare(left, [_OPPOSITES[type(op)]()], others))}"
    return ast.unparse(test)


def _lists_of(flow: Flow, name: ast.Name) -> frozenset[str]:
    """The lists that a loop over a model's parameters puts each of them into one of, where
    ``name`` is one of them."""
    for use in flow.uses(name.id, flow.scope(name)):
        for loop in flow.loops_around(use)[:1]:
            if isinstance(loop, ast.For) and [*conditions_of(flow, loop.iter)] == [""]:
                return _appended(loop.body)
    return frozenset()


def _appended(body: list[ast.stmt]) -> frozenset[str]:
    """The lists to one of which each path through statements appends; none where one does not."""
    for place, statement in enumerate(body):
        match statement:
            case ast.Expr(ast.Call(func=ast.Attribute(value=given, attr="append"))):
                several = (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,)
                names = [one.id for one in several if isinstance(one, ast.Name)]
                return frozenset(names if len(names) == len(several) else ())
            case ast.If(test=test, body=then, orelse=rest):
                leaves = isinstance(then[-1], ast.Continue)
                if ast.unparse(test).endswith(".requires_grad"):
                    if isinstance(test, ast.UnaryOp) and leaves:
                        continue
                    return _appended(then)
                paths = _appended(then), _appended(body[place + 1 :] if leaves else rest)
                if any(paths):
                    return paths[0] | paths[1] if all(paths) else frozenset()
    return frozenset()


def _is_whole(model: ast.expr) -> bool:
    """True if an expression is a model by its form, not a part of one."""
    match model:
        case ast.Name() | ast.Attribute(attr="module") | ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _parameters_of(group: ast.expr) -> ast.expr:
    """What a group says under ``params``; the group itself where it does not."""
    if isinstance(group, ast.Dict):
        for key, value in zip(group.keys, group.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "params":
                return value
    return group


def _written(flow: Flow, node: ast.expr) -> ast.expr:
    """What a name is bound to at its only place, else the expression itself."""
    if isinstance(node, ast.Name):
        match list(flow.definitions(node)):
            case [ast.Assign(targets=[ast.Name()], value=value)]:
                return value
    return node


def takes_all(flow: Flow, parameters: ast.expr) -> bool:
    """True if an optimizer that gets ``parameters`` certainly gets all parameters of a model that
    are trained, in one group or in two that a condition parts."""
    conditions = list(conditions_of(flow, parameters))
    groups = _written(flow, parameters)
    listed = groups.elts if isinstance(groups, ast.List) else [groups]
    names = {one.id: one for one in map(_parameters_of, listed) if isinstance(one, ast.Name)}
    if len(names) == len(listed) and any(
        parts and parts <= names.keys()
        for parts in (_lists_of(flow, name) for name in names.values())
    ):
        return True
    return all(_is_met(condition, conditions) for condition in conditions)


def _is_met(condition: str, conditions: list[str]) -> bool:
    """True if what does not meet a condition is in another group, or not trained."""
    opposite = condition.removeprefix("not ") if condition[:4] == "not " else f"not {condition}"
    return not condition or "" in conditions or opposite in conditions
