"""Where a tensor goes in the end: only into numbers and logs, out of sight, or through backward.

A fix that takes something off its graph is safe only if no later backward pass wants the graph. So
what holds the graph is followed by name: through arithmetic, lists, attributes, functions of the
script and their callers. Calls that memlint cannot see into may run backward themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

from memlint.engine.names import is_local
from memlint.engine.project import is_elsewhere
from memlint.engine.values import Class, Function, Object, Symbol, Value, options
from memlint.script.graphs import Graph

if TYPE_CHECKING:
    from memlint.script.calls import Call
    from memlint.script.graphs import Hoard, Sum
    from memlint.script.model import Script
    from memlint.script.steps import Step


class Reach(IntEnum):
    """Where a tensor with its graph goes, the worst of all ways.

    READ: it is only read, as a number or a text. UNKNOWN: callers out of sight may get it, or an
    object keeps it. UNSEEN: a call that cannot be followed gets it. BACKWARD: a backward pass
    starts from it.
    """

    READ = 0
    UNKNOWN = 1
    UNSEEN = 2
    BACKWARD = 3


# What is left of a tensor or a list without the graph, or does nothing with it.
_GRAPHLESS = frozenset(
    {
        *("item", "detach", "detach_", "tolist", "data", "numpy", "shape", "dtype", "device"),
        *("size", "dim", "ndim", "numel", "requires_grad", "is_leaf", "isnan", "isinf", "isfinite"),
        *("append", "clear", "remove", "keys", "format", "argmax", "argmin", "register_hook"),
        *("zero_", "retain_grad", "element_size", "startswith", "endswith", "index", "count"),
    }
)
_READERS = frozenset(
    {
        *("print", "float", "int", "len", "str", "repr", "format", "round", "isinstance", "type"),
        *("id", "bool", "callable", "hasattr", "range", "torch.is_tensor", "torch.save"),
        *("torch.isnan", "torch.isinf", "torch.isfinite"),
    }
)
# Functions whose result holds what they are given.
_CARRIERS = frozenset(
    {
        *("sum", "max", "min", "sorted", "list", "tuple", "set", "dict", "zip", "enumerate"),
        *("reversed", "iter", "next", "abs", "tqdm.tqdm", "tqdm.auto.tqdm", "copy.copy"),
    }
)
_READING_PACKAGES = frozenset(
    {"wandb", "logging", "mlflow", "numpy", "math", "json", "statistics", "time", "pprint", "rich"}
)
_CARRYING_PACKAGES = frozenset({"torch", "accelerate", "transformers", "itertools"})
# Methods of loggers, writers and bars, whatever they are called on.
_LOGS = frozenset(
    {
        *("log", "log_dict", "log_metric", "log_metrics", "add_scalar", "add_scalars", "write"),
        *("set_postfix", "set_postfix_str", "set_description", "writerow", "format", "join"),
        *("info", "debug", "warning", "error", "exception", "critical"),
    }
)
_APPENDS = frozenset({"append", "extend", "insert", "appendleft"})
# Methods of accelerators, scalers and tensors whose result has the graph of what they are given.
_PASSING = frozenset(
    {
        *("scale", "gather", "gather_for_metrics", "reduce", "all_reduce", "add", "add_", "sub"),
        *("mul", "div", "new_tensor", "where", "lerp", "copy_"),
    }
)
_DERIVATIVES = ("torch.autograd.grad", "torch.autograd.functional", "torch.func")
# Methods that a trainer runs in every step, and backward with what they return.
_HOOKS = ("training_step", "compute_loss")
# Arguments of a backward pass that let another one follow.
_KEEPING = ("retain_graph", "create_graph")
_FORWARDS = ("forward", "__call__")
_MEMBERS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What holds or is made of its parts, and has their graphs.
_MADE_OF = (ast.Starred, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Tuple, ast.List, ast.Set, ast.Dict)
_WRAPPING = (*_MADE_OF, ast.Await, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
# What reads a value as a test, a number or a text, or drops it.
_ENDING = (ast.Compare, ast.FormattedValue, ast.Expr, ast.Delete, ast.If, ast.While, ast.Assert)


def reach_of_sum(script: Script, grown: Sum, graph: Graph) -> Reach:
    """Where what a loop adds up goes, if its graph can still be run backward."""
    if graph is Graph.SPENT and _frees_graphs(script, grown.loop):
        return Reach.READ
    search, statement = _Search(script), grown.statement
    target = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
    search.follow(target, statement)
    return search.worst


def reach_of_hoard(script: Script, hoard: Hoard, graph: Graph) -> Reach:
    """Where the list that a loop appends to goes, if the graphs in it can still be run backward."""
    if graph is Graph.SPENT and _frees_graphs(script, hoard.loop):
        return Reach.READ
    search = _Search(script)
    assert isinstance(hoard.call.func, ast.Attribute)
    holder = hoard.call.func.value
    made = script.flow.definitions(holder) if isinstance(holder, ast.Name) else ()
    for bound in made or (None,):
        search.follow(holder, bound)
    return search.worst


def reach_of_graph(script: Script, step: Step, backward: Call) -> Reach:
    """Where what shares the graph of a step's backward pass goes, after that pass.

    A function that gets it before is taken to compute something of it: a criterion.
    """
    helpers = {script.function(one.node) for one in step.forwards}
    scope = script.flow.scope(backward.node)

    def is_before(call: ast.Call) -> bool:
        if script.flow.scope(call) is scope:
            return script.is_before(call, backward.node) is True
        return script.function(call) in helpers

    search = _Search(script, own=backward.node, is_before=is_before)
    for forward in step.forwards:
        search.climb(forward.node)
    for start in script.starts_of(backward):
        for node in ast.walk(start):
            if isinstance(node, ast.Name) and node.id not in ("self", "cls"):
                for bound in script.flow.definitions(node):
                    search.follow_name(node.id, scope, bound)
            elif isinstance(node, ast.Attribute) and script.text(node.value) in ("self", "cls"):
                search.follow(node)
    return search.worst


def _frees_graphs(script: Script, loop: ast.AST) -> bool:
    """True if the backward passes of a loop certainly free what they run through: a second one
    would end in an error."""
    return not script.may_use(*_KEEPING) and not any(
        one.open_keywords or len(one.arguments) > 1 or not one.keywords.keys().isdisjoint(_KEEPING)
        for one in script._backward_invocations
        if loop in one.loops
    )


class _Search:
    """One search: the worst that was met, and what was followed already.

    own: the backward pass that is asked about, which does not count. is_before: whether a call
    runs before it.
    """

    def __init__(
        self,
        script: Script,
        own: ast.Call | None = None,
        is_before: Callable[[ast.Call], bool] | None = None,
    ) -> None:
        self.script = script
        self.worst = Reach.READ
        self._own = own
        self._is_before = is_before
        self._seen: set[tuple[object, ...]] = set()

    def _is_new(self, *key: object) -> bool:
        if self.worst is Reach.BACKWARD or key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _note(self, reach: Reach) -> None:
        self.worst = max(self.worst, reach)

    # -- names -----------------------------------------------------------------------------------

    def follow(self, target: ast.expr, bound: ast.AST | None = None) -> None:
        """Follow what is stored in ``target``, by the statement ``bound`` where that is known."""
        match target:
            case ast.Name(id=name):
                self.follow_name(name, self.script.flow.scope(target), bound)
            case ast.Attribute(attr=name):
                self._note(Reach.UNKNOWN)
                self._follow_attribute(name)
            case ast.Subscript(value=inner) | ast.Starred(value=inner):
                self.follow(inner)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.follow(part, bound)

    def follow_name(self, name: str, scope: ast.AST, bound: ast.AST | None = None) -> None:
        """Follow a name of a scope; only where ``bound`` may have bound it, if that is given."""
        flow = self.script.flow
        while not isinstance(scope, ast.Module) and not is_local(scope, name):
            scope, bound = flow.scope(scope), None
        if not self._is_new(name, scope, bound):
            return
        for use in flow.uses(name, scope):
            if bound is not None and flow.scope(use) is scope:
                definitions = flow.definitions(use)
                if definitions and bound not in definitions:
                    continue
            self.climb(use)

    def _follow_attribute(self, name: str) -> None:
        if self._is_new(name):
            for node in self.script.nodes(ast.Attribute):
                if node.attr == name and isinstance(node.ctx, ast.Load):
                    self.climb(node)

    # -- expressions -----------------------------------------------------------------------------

    def climb(self, node: ast.AST) -> None:
        """Follow the value of an expression to what is made of it."""
        if not self._is_new(node):
            return
        parent = self.script.parent(node)
        match parent:
            case ast.Attribute():
                self._read_attribute(parent)
            case ast.Call():
                self._pass(parent, node)
            case ast.keyword():
                call = self.script.parent(parent)
                if isinstance(call, ast.Call):
                    self._pass(call, parent)
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
                pass
            case ast.UnaryOp(op=ast.Not()):
                pass
            case ast.IfExp(test=test) if test is node:
                pass
            case ast.Subscript(slice=index) if index is node:
                pass
            case ast.IfExp() | ast.Subscript():
                self.climb(parent)
            case _ if isinstance(parent, _WRAPPING):
                self.climb(parent)
            case _ if not isinstance(parent, _ENDING):
                self._store(parent, node)

    def _store(self, parent: ast.AST | None, node: ast.AST) -> None:
        """Follow what a statement or a comprehension does with a value."""
        match parent:
            case ast.Assign(targets=targets):
                for target in targets:
                    self.follow(target, parent)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                self.follow(target, parent)
            case ast.NamedExpr(target=target):
                self.follow(target)
                self.climb(parent)
            case ast.For(target=target) | ast.AsyncFor(target=target):
                self.follow(target)
            case ast.comprehension(target=target):
                self.follow(target, self.script.parent(parent))
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                self._leave(self.script.function(node))
            case ast.Lambda():
                self._note(Reach.UNSEEN)
            case _:
                self._note(Reach.UNKNOWN)

    def _read_attribute(self, node: ast.Attribute) -> None:
        parent = self.script.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        if node.attr.endswith("backward"):
            if parent is not self._own:
                self._note(Reach.BACKWARD)
        elif node.attr not in _GRAPHLESS:
            self.climb(parent if called and parent is not None else node)

    # -- functions -------------------------------------------------------------------------------

    def _leave(self, function: ast.AST | None) -> None:
        """Follow what a function returns into all its callers."""
        if not isinstance(function, _MEMBERS):
            self._note(Reach.UNKNOWN)
            return
        if not self._is_new(function):
            return
        if function.name in _HOOKS:
            self._note(Reach.BACKWARD)
            return
        callers = self._callers(function)
        if not callers:
            self._note(Reach.UNKNOWN)
        for caller in callers:
            if isinstance(caller, ast.Call):
                self.climb(caller)
            else:
                self._note(Reach.UNKNOWN)

    def _callers(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
        """The calls of a function, and the places that name it otherwise."""
        script = self.script
        if function.name in _FORWARDS:
            return [
                node
                for node in script.nodes(ast.Call)
                if any(
                    isinstance(one, Object) and one.cls is not None
                    for one in options(script.value(node.func))
                )
            ]
        named: list[ast.expr] = [
            node for node in script.nodes(ast.Name) if node.id == function.name
        ]
        named += [node for node in script.nodes(ast.Attribute) if node.attr == function.name]
        found: list[ast.AST] = []
        for node in named:
            parent = script.parent(node)
            found.append(parent if isinstance(parent, ast.Call) and parent.func is node else node)
        return found

    def _pass(self, call: ast.Call, given: ast.AST) -> None:
        """Follow a value that is given to a call."""
        if call is self._own:
            return
        values = list(options(self.script.value(call.func)))
        if all(isinstance(one, Function) for one in values):
            for one in values:
                self._enter(call, given, one)
            return
        self._pass_by_name(call, self._name(call, values), values)

    def _name(self, call: ast.Call, values: list[Value]) -> str:
        """The qualified name of what is called, or its last part behind a ``?``."""
        names = {one.name for one in values if isinstance(one, Symbol)}
        types = {one.type for one in values if isinstance(one, Object) and one.cls is None}
        if len(names) == len(values) == 1:
            name = names.pop()
            return self.script.api.canonical(name)
        if len(types) == len(values) == 1:
            return types.pop() or "?"
        return f"?.{call.func.attr}" if isinstance(call.func, ast.Attribute) else "?"

    def _pass_by_name(self, call: ast.Call, name: str, values: list[Value]) -> None:
        top, short = name.partition(".")[0], name.rpartition(".")[2]
        if short.endswith("backward") or name.startswith(_DERIVATIVES):
            self._note(Reach.BACKWARD)
        elif name == "getattr":
            self._get(call)
        elif name in _CARRIERS:
            self.climb(call)
        elif name in _READERS or top in _READING_PACKAGES or self._maps_a_reader(call, name):
            pass
        elif top in _CARRYING_PACKAGES:
            self.climb(call)
        elif isinstance(call.func, ast.Attribute) and self._fills(call.func):
            self.follow(call.func.value)
        elif top == "?" and short in _PASSING:
            self.climb(call)
        elif short not in _LOGS or self._defines(short):
            self._go_out_of_sight(call, values)

    def _fills(self, method: ast.Attribute) -> bool:
        """True if a method puts its arguments into a list or a dict of the script."""
        holders = list(options(self.script.value(method.value)))
        mapping = all(isinstance(one, Object) and one.type == "dict" for one in holders)
        return method.attr in _APPENDS or (mapping and method.attr == "update")

    def _maps_a_reader(self, call: ast.Call, name: str) -> bool:
        first = call.args[0] if call.args and name in ("map", "filter") else None
        return isinstance(first, ast.Name) and first.id in _READERS

    def _defines(self, name: str) -> bool:
        plain, others = self.script.nodes(ast.FunctionDef), self.script.nodes(ast.AsyncFunctionDef)
        return name in {node.name for node in plain} | {node.name for node in others}

    def _get(self, call: ast.Call) -> None:
        """``getattr(total, "mean")``."""
        attribute = self.script.python(call.args[1]) if len(call.args) > 1 else None
        if not isinstance(attribute, str) or attribute.endswith("backward"):
            self._note(Reach.BACKWARD if isinstance(attribute, str) else Reach.UNSEEN)
        elif attribute not in _GRAPHLESS:
            parent = self.script.parent(call)
            called = isinstance(parent, ast.Call) and parent.func is call
            self.climb(parent if called and parent is not None else call)

    def _go_out_of_sight(self, call: ast.Call, values: list[Value]) -> None:
        """A call that nothing is known of, or of a class of the script."""
        modules = [one for one in values if isinstance(one, Object) and one.cls is not None]
        if modules and len(modules) == len(values):
            # A module's forward pass, which is followed where it is defined.
            self.climb(call)
        elif self._is_before is not None and self._is_before(call):
            if self.script.is_statement(call):
                self._note(Reach.UNKNOWN)
            self.climb(call)
        else:
            kept = bool(values) and all(isinstance(one, Class) for one in values)
            self._note(Reach.UNKNOWN if kept else Reach.UNSEEN)

    def _enter(self, call: ast.Call, given: ast.AST, function: Value) -> None:
        """Follow an argument into a function of the script."""
        assert isinstance(function, Function)
        node = function.node
        if is_elsewhere(node):
            self._note(Reach.UNSEEN)
            return
        parameters = [*node.args.posonlyargs, *node.args.args]
        wanted: ast.arg | None = None
        if isinstance(given, ast.keyword):
            every = [*parameters, *node.args.kwonlyargs]
            wanted = next((one for one in every if one.arg == given.arg), None)
        elif given in call.args and not any(isinstance(one, ast.Starred) for one in call.args):
            place = call.args.index(given) + (function.bound is not None)
            wanted = parameters[place] if place < len(parameters) else None
        if wanted is None:
            self._note(Reach.UNSEEN)
        elif isinstance(node, ast.Lambda):
            self.follow_name(wanted.arg, node)
            self.climb(call)
        else:
            self.follow_name(wanted.arg, node, wanted)


__all__ = ["Reach", "reach_of_graph", "reach_of_hoard", "reach_of_sum"]
