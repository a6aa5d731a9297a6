"""What each kind of statement does to the run: binding, branching, defining, leaving."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from memlint.engine import modes
from memlint.engine.binding import assign, drop_item
from memlint.engine.constants import UNSURE
from memlint.engine.expressions import binary, by_default
from memlint.engine.fields import rows_of
from memlint.engine.functions import decorated
from memlint.engine.guards import fits
from memlint.engine.imported import project_value
from memlint.engine.nodes import walk
from memlint.engine.project import is_elsewhere
from memlint.engine.state import State
from memlint.engine.tensors import Output, Tensor
from memlint.engine.values import (
    ABSENT,
    MAPPINGS,
    MODELS_OF_DATA,
    UNKNOWN,
    Binding,
    Class,
    Constant,
    Function,
    Object,
    Sequence,
    Symbol,
    Value,
    merge,
    merge_bindings,
    options,
    truth,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter

# Statements of a body whose handler may try the same again.
_TRIED = 3


def _expr_statement(run: Interpreter, node: ast.Expr) -> None:
    run.eval(node.value)


def _assign(run: Interpreter, node: ast.Assign) -> None:
    value = run.eval(node.value)
    for target in node.targets:
        assign(run, target, value, node)


def _ann_assign(run: Interpreter, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(run, node.target, run.eval(node.value), node)


def _aug_assign(run: Interpreter, node: ast.AugAssign) -> None:
    right = run.eval(node.value)
    left = run.eval(node.target)
    if isinstance(left, Object) and left.type == "dict" and isinstance(node.op, ast.BitOr):
        run.update_dict(left, right)
        return
    value = run.bounded(binary(run, node.op, left, right, None))
    if isinstance(value, Tensor):
        # A sum over the turns of a loop, which is told from what it adds up.
        value.operation, value.node = "+=", node.target
    assign(run, node.target, value, node)


def _delete(run: Interpreter, node: ast.Delete) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                run.bind(name, ABSENT)
            case ast.Subscript(value=inner, slice=key_node):
                key = run.eval(key_node)
                for thing in options(run.eval(inner)):
                    if isinstance(thing, Object) and (
                        thing.type == "dict" or isinstance(key, Constant)
                    ):
                        drop_item(run, thing, key)
            case ast.Attribute(value=inner, attr=attribute):
                for thing in options(run.eval(inner)):
                    if isinstance(thing, Object):
                        run.set_binding(thing, attribute, Binding(ABSENT))


def _import(run: Interpreter, node: ast.Import) -> None:
    for alias in node.names:
        name = _imported(run, alias.name)
        _note_import(run, node, alias, name)
        if alias.asname:
            run.bind(alias.asname, Symbol(name), node)
        else:
            top = alias.name.split(".")[0]
            run.bind(top, Symbol(_imported(run, top)), node)


def _imported(run: Interpreter, name: str) -> str:
    """The name of a module: relative, where a package beside the script is imported for it."""
    home = run.homes.get(run.root_scope())
    hidden = run.project is not None and run.project.hides_library(name, home)
    return f".{name}" if hidden else name


def _note_import(
    run: Interpreter, node: ast.Import | ast.ImportFrom, alias: ast.alias, name: str
) -> None:
    """Keep an import of the script's own: what another file imports has no place in it."""
    if not is_elsewhere(node):
        run.imports.append((node, alias, name))
    elif run.homes.get(run.root_scope()) in run.scripts:
        run.packages_above.add(name.partition(".")[0])


def _import_from(run: Interpreter, node: ast.ImportFrom) -> None:
    module = "." * node.level + (node.module or "")
    if not node.level:
        module = _imported(run, module)
    for alias in node.names:
        name = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
        _note_import(run, node, alias, name)
        if alias.name == "*":
            run.stars.setdefault(module)
        else:
            run.bind(alias.asname or alias.name, Symbol(name), node)


def _if(run: Interpreter, node: ast.If) -> None:
    decided, test = truth(run.eval(node.test)), node.test
    if decided is None and getattr(getattr(test, "left", None), "id", "") == "__name__":
        decided = not is_elsewhere(node) or run.homes.get(run.scope) in run.scripts
    if decided is None and getattr(test, "attr", getattr(test, "id", "")) == "TYPE_CHECKING":
        run.fork(lambda: run.block(node.body))
        return
    if decided is not None:
        run.block(node.body if decided else node.orelse)
        return
    default = by_default(run, node.test)
    taken = (int(not default.value), default.origin) if default is not None else None
    run.fork(lambda: run.block(node.body), lambda: run.block(node.orelse), taken=taken)


def _loop(run: Interpreter, node: ast.For | ast.AsyncFor | ast.While) -> None:
    endless = False
    if isinstance(node, ast.While):
        decided = truth(run.eval(node.test))
        if decided is False:
            run.block(node.orelse)
            return
        endless = decided is True
    else:
        iterated = run.eval(node.iter)
    for name in _stored_names(run, node):
        binding = run.lookup(name)
        if binding is not None:
            run.bind(name, merge([binding.value, UNKNOWN]))
    base = run.state
    run.state = State(base)
    run.loops += 1
    run.branches += 1
    nest, run.loop_nest = run.loop_nest, (*run.loop_nest, node)
    if not isinstance(node, ast.While):
        item = iterated.items if isinstance(iterated, Sequence) and not iterated.open else ()
        value = merge(item) if item else UNKNOWN
        if run.has_tensors:
            value = rows_of(run, node.iter, value)
        assign(run, node.target, value, node)
    run.block(node.body)
    run.loops -= 1
    run.branches -= 1
    run.loop_nest = nest
    if run.has_outputs and not run.state.unreachable:
        _remember_end(run, node)
    body = run.state
    body.unreachable = False
    run.state = base
    base.join([body] if endless else [body, State(base)])
    run.block(node.orelse)


def _remember_end(run: Interpreter, loop: ast.For | ast.AsyncFor | ast.While) -> None:
    """Keep the names that a step leaves bound to outputs or tensors."""
    # What a loop goes over gets its names anew before the next step.
    targets = [] if isinstance(loop, ast.While) else walk([loop.target])
    held = {}
    for name in _stored_names(run, loop) - {getattr(one, "id", "") for one in targets}:
        binding = run.lookup(name) or Binding(ABSENT)
        kept = [one for one in _kept_under(run, binding) if isinstance(one, Output | Tensor)]
        if kept:
            held[name] = Binding(merge(kept), binding.how, binding.owner)
    run.loop_ends.setdefault(loop, []).append(held)


_OUTPUT = "transformers.modeling_outputs."


def _kept_under(run: Interpreter, binding: Binding) -> Iterator[Value]:
    """What may be under a name, and the parts of a tuple, a dict or a record that a call
    returned."""
    returned = isinstance(binding.owner, ast.Assign) and isinstance(binding.owner.value, ast.Call)
    for one in options(binding.value):
        yield one
        if returned and isinstance(one, Sequence):
            yield from one.items
        elif returned and isinstance(one, Object) and _is_of_parts(one):
            yield from (each.value for each in run.bindings(one).values())


def _is_of_parts(thing: Object) -> bool:
    """True for a dict, and for a record: of the script's own, or an output of transformers."""
    kind = thing.type or ""
    own = thing.cls is not None and thing.cls.is_dataclass
    return own or kind in (*MAPPINGS, "types.SimpleNamespace") or _OUTPUT in kind


def _with(run: Interpreter, node: ast.With | ast.AsyncWith) -> None:
    before, mode = run.contexts, modes.saved(run)
    for item in node.items:
        value = run.eval(item.context_expr)
        name = run.name_of(item.context_expr) or modes.maker(value)
        if name:
            run.contexts = (*run.contexts, name)
        modes.enter(run, name, value)
        if item.optional_vars is not None:
            assign(run, item.optional_vars, value, node)
    run.block(node.body)
    run.contexts = before
    modes.restore(run, mode)


def _try(run: Interpreter, node: Any) -> None:
    base = run.state
    run.state = body = State(base)
    run.branches += 1
    first, before = len(run.objects), run.retried
    run.block(node.body)
    made = run.objects[first:] if len(node.body) <= _TRIED else ()
    retried = {each.type: each for each in made if each.type and each.made_by is not None}
    run.block(node.orelse)
    branches = [body]
    for handler in node.handlers:
        run.retried = retried
        # The body may have failed anywhere: what it bound may or may not be there.
        run.state = State(base)
        for key, binding in body.facts.items():
            new = key[0] in body.allocated
            run.state.facts[key] = binding if new else merge_bindings((binding, base.get(key)))
        if handler.type is not None:
            run.eval(handler.type)
        if handler.name:
            run.bind(handler.name, UNKNOWN)
        run.block(handler.body)
        branches.append(run.state)
        # What a retry joined into an object holds wherever that goes.
        ids = {id(each) for each in retried.values()}
        body.facts.update({key: it for key, it in run.state.facts.items() if key[0] in ids})
    run.retried = before
    run.branches -= 1
    run.state = base
    base.join(branches)
    unreachable, base.unreachable = base.unreachable, False
    run.block(node.finalbody)
    base.unreachable = base.unreachable or unreachable


def _match(run: Interpreter, node: ast.Match) -> None:
    subject = run.eval(node.subject)

    def arm(case: ast.match_case) -> Callable[[], None]:
        def body() -> None:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    run.bind(name, subject if part is case.pattern else UNKNOWN)
            if case.guard is not None:
                run.eval(case.guard)
            run.block(case.body)

        return body

    taken = None
    if isinstance(subject, Constant):
        answers = [fits(lambda one: _plain(run, one), node.subject, case) for case in node.cases]
        if None not in answers[: (first := (*answers, True).index(True))]:
            taken = first, subject.origin
    run.fork(*[arm(case) for case in node.cases], lambda: None, taken=taken)


def _plain(run: Interpreter, node: ast.expr) -> object:
    value = run.values.get(node) or run.eval(node)
    return value.value if isinstance(value, Constant) else UNSURE


def _define_function(run: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    made, decorators = [], []
    contexts, mode = run.contexts, modes.saved(run)
    for decorator in node.decorator_list:
        decorators.append(run.eval(decorator))
        if isinstance(decorator, ast.Call) and run.invocations:
            made.append(run.invocations[-1])
    run.contexts = contexts
    modes.restore(run, mode)
    for default in [*node.args.defaults, *node.args.kw_defaults]:
        if default is not None:
            run.eval(default)
    function = Function(node, run.scope, None, None, tuple(made))
    run.defined.append(function)
    run.bind(node.name, decorated(run, function, decorators), node)


def _define_class(run: Interpreter, node: ast.ClassDef) -> None:
    if not is_elsewhere(node):
        run.classes.append(node)
    bases = tuple(_base(run, base) for base in node.bases)
    for keyword in node.keywords:
        run.eval(keyword.value)
    is_dataclass = False
    for decorator in node.decorator_list:
        run.eval(decorator)
        name = run.name_of(decorator) or ""
        is_dataclass |= name.rsplit(".", 1)[-1] == "dataclass" or name in _OF_ATTRS
    is_dataclass |= any(_gives_fields(base) for base in bases)
    scope = run.new_scope(run.scope)
    made = Class(node, scope, bases, is_dataclass)
    run.class_values.append(made)
    outer, run.scope = run.scope, scope
    start = len(run.defined)
    run.block(node.body)
    run.scope = outer
    for function in run.defined[start:]:
        # Methods do not see the names of their class.
        function.owner = function.owner or made
        function.scope = outer if function.scope == scope else function.scope
    run.bind(node.name, made, node)


def _base(run: Interpreter, node: ast.expr) -> Value:
    """What a class is derived from: a class of another file of the project is run with it."""
    value = run.eval(node)
    known = project_value(run, value.name) if isinstance(value, Symbol) else None
    return known if isinstance(known, Class) else value


_OF_ATTRS = ("attrs.define", "attrs.frozen", "attr.define", "attr.frozen", "attr.dataclass")


def _gives_fields(base: Value) -> bool:
    """True if what is derived from a class takes its fields as keywords."""
    if isinstance(base, Symbol):
        return base.name in MODELS_OF_DATA
    return isinstance(base, Class) and base.is_dataclass


def _return(run: Interpreter, node: ast.Return) -> None:
    run.returns.append(run.eval(node.value) if node.value else Constant(None))
    run.state.unreachable = True


def _stop(run: Interpreter, node: ast.stmt) -> None:
    if isinstance(node, ast.Raise) and node.exc is not None:
        run.eval(node.exc)
    run.state.unreachable = True


def _global(run: Interpreter, node: ast.Global) -> None:
    names = run.global_names.setdefault(run.scope, {})
    names.update(dict.fromkeys(node.names, run.root_scope()))


def _nonlocal(run: Interpreter, node: ast.Nonlocal) -> None:
    names = run.global_names.setdefault(run.scope, {})
    for name in node.names:
        scope = run.parents[run.scope]
        while scope:
            if run.state.get((scope, name)) is not None:
                names[name] = scope
                break
            scope = run.parents[scope]


def _assert(run: Interpreter, node: ast.Assert) -> None:
    run.eval(node.test)


def _stored_names(run: Interpreter, loop: ast.For | ast.AsyncFor | ast.While) -> frozenset[str]:
    known = run.stored_names.get(loop)
    if known is None:
        known = run.stored_names[loop] = frozenset(
            node.id
            for node in walk(loop.body)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
    return known


STATEMENTS: dict[type[ast.stmt], Callable[[Interpreter, Any], None]] = {
    ast.Expr: _expr_statement,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.If: _if,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.FunctionDef: _define_function,
    ast.AsyncFunctionDef: _define_function,
    ast.ClassDef: _define_class,
    ast.Return: _return,
    ast.Raise: _stop,
    ast.Break: _stop,
    ast.Continue: _stop,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Assert: _assert,
}
