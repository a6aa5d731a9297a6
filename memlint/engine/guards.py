"""What decides whether a statement runs, and what becomes of its errors."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeGuard

from memlint.engine.answers import all_of, any_of, opposite
from memlint.engine.constants import UNSURE
from memlint.engine.name_uses import Turn
from memlint.engine.nodes import called_name, calls_in, last_name, literal_of, targets_of, walk
from memlint.engine.tree import Tree
from memlint.engine.values import Object

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Python = Callable[[ast.expr], object]

# -- branches that are not taken unless somebody says otherwise ------------------------------------


def is_off_by_default(tree: Tree, node: ast.AST, python: Python) -> bool:
    """True if the defaults of a command line or a function keep ``node`` from running, by a
    condition around it: a run follows both arms of what a command line decides. python: the value
    of an expression, or UNSURE."""
    return False in answers_around(tree, node, python)


def answers_around(tree: Tree, node: ast.AST, python: Python) -> Iterator[bool | None]:
    """Yield for each condition around ``node`` whether the defaults let it run; None: unknown."""
    inner = node
    for around in tree.ancestors(node):
        if isinstance(around, ast.If | ast.IfExp) and inner is not around.test:
            then = around.body if isinstance(around.body, list) else [around.body]
            if not _is_main_guard(around.test):
                holds = _holds(python, around.test)
                yield holds if inner in then else opposite(holds)
        if isinstance(around, ast.Match) and isinstance(inner, ast.match_case):
            yield _is_taken(python, around, inner)
        before = _before(around, inner)
        if any(one.orelse == [] and _holds(python, one.test) for one in before if _goes(one)):
            yield False
        inner = around


def _before(around: ast.AST, inner: ast.AST) -> list[ast.stmt]:
    """The statements before one in its block; none for what is no statement of a block."""
    blocks = (getattr(around, name, None) for name in ("body", "orelse", "finalbody"))
    own = next((one for one in blocks if isinstance(one, list) and inner in one), [])
    return own[: own.index(inner)] if own else []


def _goes(statement: ast.stmt) -> TypeGuard[ast.If]:
    """True for a condition under which nothing behind it in its block runs."""
    leaves = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], leaves)


def _is_taken(python: Python, around: ast.Match, case: ast.match_case) -> bool | None:
    """True if a case is the first of its statement that fits."""
    before = around.cases[: around.cases.index(case)]
    others = (opposite(fits(python, around.subject, one)) for one in before)
    return all_of([*others, fits(python, around.subject, case)])


def fits(python: Python, subject: ast.expr, case: ast.match_case) -> bool | None:
    """True if a case of a ``match`` fits what its subject is by default; None: nobody can tell."""
    guard = _holds(python, case.guard) if case.guard is not None else True
    return all_of((_is_like(python, subject, case.pattern), guard))


def _is_like(python: Python, subject: ast.expr, pattern: ast.pattern | None) -> bool | None:
    """True if a subject fits a pattern; None is that of ``_`` and of a name."""
    match pattern:
        case None:
            return True
        case ast.MatchAs(pattern=inner):
            return _is_like(python, subject, inner)
        case ast.MatchOr(patterns=patterns):
            return any_of(_is_like(python, subject, one) for one in patterns)
        case ast.MatchValue(value=value):
            return _equal(python, subject, value)
        case ast.MatchSingleton(value=value):
            return _equal(python, subject, ast.Constant(value))
    return None


def _is_main_guard(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id="__name__")):
            return True
    return False


def _holds(python: Python, test: ast.expr) -> bool | None:
    """True if a condition holds by the defaults in it; None where nobody can tell."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return opposite(_holds(python, operand))
        case ast.BoolOp(op=ast.And(), values=values):
            return all_of(_holds(python, one) for one in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any_of(_holds(python, one) for one in values)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _compared(python, left, sign, right)
        case ast.Name() | ast.Attribute() | ast.Constant() | ast.Subscript() | ast.Call():
            value = python(test)
            known = value is None or isinstance(value, bool | int | float | str)
            return bool(value) if known else None
    return None


def _compared(python: Python, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> bool | None:
    match sign, right:
        case ((ast.Eq() | ast.Is()), _):
            return _equal(python, left, right)
        case ((ast.NotEq() | ast.IsNot()), _):
            return opposite(_equal(python, left, right))
        case ast.In(), ast.List() | ast.Tuple():
            return any_of(_equal(python, left, one) for one in right.elts)
    return None


def _equal(python: Python, left: ast.expr, right: ast.expr) -> bool | None:
    one, other = python(left), python(right)
    if one is UNSURE or other is UNSURE:
        return None
    if other is None and isinstance(one, Object):
        return False if one.type or one.cls else None
    plain = (bool, int, float, str, type(None))
    if not isinstance(one, plain) or not isinstance(other, plain):
        return None
    return type(one) is type(other) and one == other


def conditions_of_calls(loop: Turn, method: str) -> Iterator[ast.expr]:
    """Yield the conditions in a loop under which a method of that name is called, those of a count
    (``if (i + 1) % 4: continue``) that pass over it too, and what a name in them stands for."""
    calls = (one for one in walk(loop.body) if isinstance(one, ast.Call))
    last = max((one.lineno for one in calls if called_name(one) == method), default=0)
    for node in walk(loop.body):
        if not isinstance(node, ast.If):
            continue
        skips = isinstance(node.body[-1], ast.Continue) and node.lineno < last
        if (skips and any(moduli_in(node.test))) or any(
            called_name(one) == method for one in calls_in(node)
        ):
            yield node.test
            yield from _assigned(loop, node.test)


def _assigned(loop: Turn, test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a loop assigns to the names in a condition (``last = i % 8 == 0``)."""
    names = {one.id for one in walk([test]) if isinstance(one, ast.Name)}
    for one in walk(loop.body):
        if isinstance(one, ast.Assign) and any(ast.unparse(each) in names for each in one.targets):
            yield one.value


def words_tested(tree: Tree, statement: ast.AST, loop: ast.AST) -> Iterator[tuple[list[str], bool]]:
    """Yield, for each condition in a loop under which a statement runs, the texts that it compares,
    and whether it holds where they are not there; no texts where it is about something else. What
    is assigned may be such a condition, of the contrary."""
    tests = []
    for around in tree.ancestors(statement):
        if around is loop:
            break
        if isinstance(around, ast.If):
            tests.append((around.test, False))
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Compare | ast.UnaryOp | ast.BoolOp):
        tests.append((value, True))
    for test, negated in tests:
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, negated = test.operand, not negated
        negated ^= isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn)
        written = [one.value for one in walk([test]) if isinstance(one, ast.Constant)]
        words = [one.strip(".") for one in written if isinstance(one, str)]
        yield words if len(words) == len(written) else [], negated


def moduli_in(test: ast.expr) -> Iterator[ast.expr]:
    """Yield ``4`` of ``(i + 1) % 4 == 0``."""
    for node in walk([test]):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            yield node.right


def calls_of_plain(*roots: ast.AST) -> list[ast.Call] | None:
    """The calls in statements; None where they define a function or a class, or yield."""
    nodes = walk(roots)
    if any(isinstance(node, (*SCOPES, ast.Yield, ast.YieldFrom)) for node in nodes):
        return None
    return [node for node in nodes if isinstance(node, ast.Call)]


def asserts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a function asserts something, as tests do."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and called_name(node).startswith("assert"))
        for node in walk(function.body)
    )


def blocks_around(tree: Tree, statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases around a statement within its function."""
    for around in tree.ancestors(statement):
        block = isinstance(around, ast.stmt | ast.ExceptHandler | ast.match_case)
        if not block or isinstance(around, SCOPES):
            return
        yield around


def decides_around(tree: Tree, node: ast.AST, collecting: tuple[str, ...]) -> bool:
    """True if what is around a node within its statement compares or tests it, returns it, or gives
    it to something whose name ends in one of ``collecting``."""
    for around in tree.ancestors(node):
        if isinstance(around, ast.Compare | ast.If | ast.While | ast.Return):
            return True
        if isinstance(around, ast.Call) and tree.text(around.func).endswith(collecting):
            return True
        if isinstance(around, ast.stmt):
            return False
    return False


# -- versions --------------------------------------------------------------------------------------

_OF_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "TypeError", "AttributeError"})
# Handlers of anything at all mean versions where their ``try`` holds little else.
_FEW = 3
# Calls that say what happened, on both sides.
_REPORTERS = frozenset(
    {"print", "info", "warning", "warn", "error", "exception", "debug", "log", "str", "format"}
)


def minds_versions(tree: Tree, node: ast.AST, asks: Callable[[ast.expr], bool]) -> bool:
    """True if a script itself minds versions where a node stands: it catches the error, or asks
    first.

    What counts is what a handler does: where it does the same thing another way (another import,
    another call, a name that says that the thing is missing) the script runs with both versions.
    Where it logs, prints, raises again or ends the program, the error is only reported.
    """
    if any(_makes_up(one, around, node) for around, one in _handlers(tree, node)):
        return True
    for around in tree.ancestors(node):
        match around:
            case ast.ExceptHandler():
                # What is done where the new name fails.
                minds = _catches(around, anything=False)
            case ast.With(items=items):
                minds = any(_suppresses(one.context_expr) for one in items)
            case ast.If(test=test) | ast.IfExp(test=test) | (ast.BoolOp() as test):
                minds = asks(test)
            case _:
                minds = False
        if minds:
            return True
    return False


def is_probe(tree: Tree, node: ast.AST) -> bool:
    """True if a script tries here what a version takes: a handler catches what another raises."""
    return any(_catches(one, anything=False) for _, one in _handlers(tree, node))


def calls_after_failure(tree: Tree, node: ast.AST) -> list[ast.Call]:
    """The calls in the handlers of what a node raises."""
    bodies = (one.body for _, one in _handlers(tree, node))
    return [call for body in bodies for call in walk(body) if isinstance(call, ast.Call)]


def _handlers(tree: Tree, node: ast.AST) -> Iterator[tuple[ast.Try, ast.ExceptHandler]]:
    """Yield what catches the errors of a node, with the statements that it belongs to."""
    span = tree.span(node)
    for around in (one for one in tree.ancestors(node) if isinstance(one, ast.Try)):
        if any(tree.span(statement).contains(span) for statement in around.body):
            yield from ((around, handler) for handler in around.handlers)


def _makes_up(handler: ast.ExceptHandler, around: ast.Try, node: ast.AST) -> bool:
    """True if a handler catches what another version raises, and does without it."""
    if not _catches(handler, anything=len(around.body) <= _FEW):
        return False
    if isinstance(node, ast.Import | ast.ImportFrom):
        # ``except ImportError: HAS_TRL = False``: what needs the name asks first.
        # What it reports does not matter: what was to be imported stays unknown.
        calls = [isinstance(getattr(one, "value", None), ast.Call) for one in handler.body]
        return not all(calls) and not any(map(_leaves, handler.body))
    if _catches(handler, anything=False) and isinstance(handler.body[0], ast.Pass):
        return True
    return not _names(around.body).isdisjoint(_names(handler.body))


def _suppresses(made: ast.expr) -> bool:
    """True for ``suppress(TypeError)``."""
    is_call = isinstance(made, ast.Call) and called_name(made) == "suppress"
    return is_call and any(last_name(one) in _OF_VERSIONS for one in ast.walk(made))


def _leaves(statement: ast.stmt) -> bool:
    """True if a handler's statement raises, or ends the whole program."""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="exit" | "quit"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="exit" | "_exit"))):
            return True
        case _:
            return False


def _names(body: Iterable[ast.stmt]) -> frozenset[str]:
    """What statements import, bind, call, expand by ``**`` or cut, by the last part of the name."""
    return frozenset(_named(body))


def _named(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in (one for statement in body for one in ast.walk(statement)):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop" | "remove")):
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Del() | ast.Store()):
                yield name
            case ast.keyword(arg=None, value=ast.Name(id=name)):
                yield name
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                name not in _REPORTERS
            ):
                yield name
            case ast.Assign(targets=targets):
                yield from (one.id for one in targets if isinstance(one, ast.Name))


def _catches(handler: ast.ExceptHandler, *, anything: bool) -> bool:
    if handler.type is None:
        return anything
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not names.isdisjoint(_OF_VERSIONS) or (anything and "Exception" in names)


def looked_up_in(tree: Tree, asked: set[ast.AST]) -> frozenset[str]:
    """The words that a script looks for in the signatures that calls ``asked`` give: those that it
    names, or all its words where it goes through names."""
    named = [literal_of(one) for one in _looked_for(tree, asked)]
    if not named or None in named:
        named = [*_words(tree)]
    return frozenset(one for one in named if isinstance(one, str))


def _looked_for(tree: Tree, asked: set[ast.AST]) -> Iterator[ast.expr]:
    bound = [one for call in asked for one in targets_of(tree.statement(call))]
    names = {one.id for one in bound if isinstance(one, ast.Name)}
    for node in tree.nodes_anywhere(ast.Compare):
        is_in = isinstance(node.ops[0], ast.In | ast.NotIn)
        if is_in and _is_of_signature(node.comparators[0], asked, names):
            yield node.left
    for call in asked:
        if isinstance(call, ast.Call) and called_name(call) == "hasattr":
            yield call.args[1]


def _words(tree: Tree) -> Iterator[object]:
    """Yield the strings of a file, and what its functions, and dicts, get by keyword."""
    yield from map(literal_of, tree.nodes(ast.Constant))
    for call in tree.nodes(ast.Call):
        if called_name(call) == "dict" or tree.definitions_of(called_name(call)):
            yield from (keyword.arg for keyword in call.keywords)


def _is_of_signature(node: ast.expr, asked: set[ast.AST], names: set[str]) -> bool:
    """True if an expression is made of the parameters of something, by a name of them too."""
    return any(
        inner in asked
        or (isinstance(inner, ast.Name) and inner.id in names)
        or (isinstance(inner, ast.Attribute) and inner.attr == "parameters")
        for inner in walk([node])
    )


# -- errors of a step ------------------------------------------------------------------------------

_WIDE = frozenset({"RuntimeError", "Exception", "BaseException"})


def survivable(tree: Tree, suppresses: Callable[[ast.expr], bool]) -> Iterator[list[ast.stmt]]:
    """Yield the statements after whose ``RuntimeError`` a script goes on. suppresses: whether what
    is called makes a context that ends errors."""
    for node in tree.nodes(ast.Try):
        if any(_catches_runtime(one.type) and not _raises_again(one) for one in node.handlers):
            yield node.body
    for block in tree.nodes(ast.With):
        made = [one.context_expr for one in block.items]
        if any(
            isinstance(one, ast.Call)
            and suppresses(one.func)
            and any(map(_catches_runtime, one.args))
            for one in made
        ):
            yield block.body


def _catches_runtime(kind: ast.expr | None) -> bool:
    """True if a handler catches ``RuntimeError``, by that name or that of a wider class."""
    match kind:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(_catches_runtime(one) for one in kinds)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _WIDE or not name[:1].isupper() or name.isupper()
    return True


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """True if a handler always ends by raising what it caught."""
    leaves = (ast.Return, ast.Continue, ast.Break)
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return not any(isinstance(node, leaves) for node in walk(handler.body))
    return False
