"""What statements do to a name: whether they read it, bind it, or let go of what it holds."""

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from memlint.engine.nodes import walk
from memlint.source.record import NamedTuple

Loop = ast.For | ast.AsyncFor | ast.While
# What runs once a step: a loop, or the method that a trainer runs in every step.
Turn = Loop | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Effect(NamedTuple):
    """What statements do to a name. reads: some path reads the value that it has before them.
    kills: after them that value is gone on every path."""

    reads: bool
    kills: bool


def is_turn(node: object) -> TypeGuard[Turn]:
    """True if a node is a loop that is a statement, or a function."""
    return isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef)


def is_loop(node: object) -> TypeGuard[Loop]:
    """True if a node is a loop that is a statement."""
    return isinstance(node, ast.For | ast.AsyncFor | ast.While)


def block_effect(body: Sequence[ast.stmt], name: str) -> Effect:
    for statement in body:
        effect = effect_of(statement, name)
        if effect.reads:
            return Effect(True, False)
        if effect.kills:
            return Effect(False, True)
    return Effect(False, False)


def head_effect(loop: Loop, name: str) -> Effect:
    """One turn of a loop, from its head."""
    if isinstance(loop, ast.While):
        if reads(loop.test, name):
            return Effect(True, False)
    elif stores(loop.target, name):
        return Effect(False, True)
    return block_effect(loop.body, name)


def _then(first: Effect, second: Effect) -> Effect:
    """One after the other."""
    return first if first.reads or first.kills else second


def _either(*arms: Effect) -> Effect:
    return Effect(any(arm.reads for arm in arms), all(arm.kills for arm in arms))


_NOTHING = Effect(False, False)


def _read(*expressions: ast.AST | None, name: str) -> Effect:
    return Effect(any(one is not None and reads(one, name) for one in expressions), False)


def effect_of(statement: ast.stmt, name: str) -> Effect:
    """What one statement, with all that is in it, does to a name."""
    effect = _EFFECTS.get(type(statement))
    return effect(statement, name) if effect is not None else _read(statement, name=name)


def _assign(statement: ast.Assign, name: str) -> Effect:
    stored = [stores(target, name) for target in statement.targets]
    others = [one for one, is_it in zip(statement.targets, stored, strict=True) if not is_it]
    return _then(_read(statement.value, *others, name=name), Effect(False, any(stored)))


def _annotated(statement: ast.AnnAssign, name: str) -> Effect:
    if statement.value is None:
        return _NOTHING
    return _then(_read(statement.value, name=name), Effect(False, stores(statement.target, name)))


def _augmented(statement: ast.AugAssign, name: str) -> Effect:
    target = statement.target
    named = isinstance(target, ast.Name) and target.id == name
    return Effect(named or reads(statement.value, name) or reads(target, name), False)


def _deleted(statement: ast.Delete, name: str) -> Effect:
    gone = any(stores(target, name) for target in statement.targets)
    return _then(_read(*statement.targets, name=name), Effect(False, gone))


def _if(statement: ast.If, name: str) -> Effect:
    arms = _either(block_effect(statement.body, name), block_effect(statement.orelse, name))
    return _then(_read(statement.test, name=name), arms)


def _while(statement: ast.While, name: str) -> Effect:
    turn, after = head_effect(statement, name), block_effect(statement.orelse, name)
    return Effect(turn.reads or after.reads, False)


def _for(statement: ast.For | ast.AsyncFor, name: str) -> Effect:
    turn, after = head_effect(statement, name), block_effect(statement.orelse, name)
    return _then(_read(statement.iter, name=name), Effect(turn.reads or after.reads, False))


def _with(statement: ast.With | ast.AsyncWith, name: str) -> Effect:
    read = _read(*(item.context_expr for item in statement.items), name=name)
    bound = Effect(False, with_target(statement, name))
    return _then(read, _then(bound, block_effect(statement.body, name)))


def _match(statement: ast.Match, name: str) -> Effect:
    arms = _either(_NOTHING, *(block_effect(case.body, name) for case in statement.cases))
    return _then(_read(statement.subject, name=name), arms)


def _definition(
    statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str
) -> Effect:
    return _then(_read(statement, name=name), Effect(False, statement.name == name))


def _import(statement: ast.Import | ast.ImportFrom, name: str) -> Effect:
    bound = [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    return Effect(False, name in bound)


def _end(statement: ast.Return | ast.Raise, name: str) -> Effect:
    """After it nothing of the block runs, so that nothing reads the name."""
    read = reads(statement, name)
    return Effect(read, not read)


def _try(statement: ast.Try | ast.TryStar, name: str) -> Effect:
    body = block_effect([*statement.body, *statement.orelse], name)
    handlers = [block_effect(handler.body, name) for handler in statement.handlers]
    last = block_effect(statement.finalbody, name)
    read = body.reads or last.reads or any(one.reads for one in handlers)
    return Effect(read, last.kills or (body.kills and all(one.kills for one in handlers)))


_EFFECTS: dict[type[ast.stmt], Callable[[Any, str], Effect]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _deleted,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.FunctionDef: _definition,
    ast.AsyncFunctionDef: _definition,
    ast.ClassDef: _definition,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Return: _end,
    ast.Raise: _end,
}


def assigns_in_block(body: Sequence[ast.stmt], name: str) -> bool:
    """True if statements bind a name on every path that goes on."""
    return any(assigns(statement, name) for statement in body)


def assigns(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.If(body=body, orelse=orelse):
            return (assigns_in_block(body, name) or _leaves(body)) and (
                assigns_in_block(orelse, name) or _leaves(orelse)
            )
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return with_target(statement, name) or assigns_in_block(body, name)
        case (
            ast.Try(body=body, handlers=handlers, finalbody=last)
            | ast.TryStar(body=body, handlers=handlers, finalbody=last)
        ):
            arms = all(assigns_in_block(one.body, name) or _leaves(one.body) for one in handlers)
            return assigns_in_block(last, name) or (assigns_in_block(body, name) and arms)
        case ast.For() | ast.AsyncFor() | ast.While() | ast.Match() | ast.Delete():
            return False
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
    return _binds_itself(statement, name)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def bindings(statement: ast.stmt, name: str) -> list[ast.AST]:
    """The statements within a statement that bind a name."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [statement]
    for node in pending:  # grows meanwhile
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                found.append(node)
            continue
        if isinstance(node, ast.stmt) and _binds_itself(node, name):
            found.append(node)
        pending += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
    return found


def _binds_itself(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(stores(one, name) for one in targets)
        case ast.AnnAssign(target=target, value=value):
            return value is not None and stores(target, name)
        case ast.AugAssign(target=target):
            return stores(target, name)
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return stores(target, name)
        case ast.With() | ast.AsyncWith():
            return with_target(statement, name)
        case ast.Import() | ast.ImportFrom():
            return effect_of(statement, name).kills
    return False


def stores(target: ast.AST, name: str) -> bool:
    match target:
        case ast.Name(id=bound):
            return bound == name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(stores(part, name) for part in parts)
        case ast.Starred(value=inner):
            return stores(inner, name)
    return False


def with_target(statement: ast.AST, name: str) -> bool:
    items = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else []
    return any(
        item.optional_vars is not None and stores(item.optional_vars, name) for item in items
    )


def reads(tree: ast.AST, name: str) -> bool:
    """True if an expression or a definition reads a name of the scope that it is written in."""
    pending: list[ast.AST] = [tree]
    for node in pending:  # grows meanwhile
        if isinstance(node, ast.Name):
            if node.id == name and isinstance(node.ctx, ast.Load):
                return True
            continue
        if isinstance(node, FUNCTIONS) and is_local(node, name):
            arguments = node.args
            pending += [*arguments.defaults, *(one for one in arguments.kw_defaults if one)]
            continue
        if isinstance(node, COMPREHENSIONS) and binds_in_comprehension(node, name):
            pending.append(node.generators[0].iter)
            continue
        pending += ast.iter_child_nodes(node)
    return False


def binds_in_comprehension(node: ast.AST, name: str) -> bool:
    return any(stores(one.target, name) for one in getattr(node, "generators", ()))


def is_local(function: ast.AST, name: str) -> bool:
    """True if a function binds a name itself."""
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return name in local_names(function)
    return False


# Asked for each name of a function, one after another.
@lru_cache(maxsize=64)
def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """Return the names that a function binds itself."""
    stored: set[str] = set()
    declared: set[str] = set()
    for node in walk(function.body if isinstance(function.body, list) else [function.body]):
        if node.__class__ is ast.Name:
            if node.ctx.__class__ is not ast.Load:
                stored.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            declared.update(node.names)
    return frozenset(stored - declared).union(each.arg for each in parameters(function))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    arguments = function.args
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(one for one in (arguments.vararg, arguments.kwarg) if one is not None),
    ]


def mentions(tree: ast.AST, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in walk([tree]))
