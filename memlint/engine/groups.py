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
        case ast.ListComp(generators=[loop]) | ast.GeneratorExp(generators=[loop]):
            (inner, *_) = conditions_of(flow, loop.iter)
            tests = [test for test in loop.ifs if not ast.unparse(test).endswith(".requires_grad")]
            yield " and ".join(map(ast.unparse, tests)) if not inner else "?"
        case ast.Call(func=ast.Attribute(attr=name, value=model), args=[]) if name in _READERS:
            yield "" if _is_whole(model) else "?"
        case ast.Call(func=ast.Name(id=name), args=[*_, source]) if name in _SAME:
            whole = name != "filter" or "requires_grad" in ast.unparse(node.args[0])
            yield from conditions_of(flow, source) if whole else ("?",)
        case _:
            yield "?"


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
    return all(_is_met(condition, conditions) for condition in conditions)


def _is_met(condition: str, conditions: list[str]) -> bool:
    """True if what does not meet a condition is in another group, or not trained."""
    opposite = condition.removeprefix("not ") if condition[:4] == "not " else f"not {condition}"
    return not condition or "" in conditions or opposite in conditions
