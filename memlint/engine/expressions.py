"""What each kind of expression is worth, as far as the script says."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memlint.engine import fields, operations
from memlint.engine.binding import assign, store_item
from memlint.engine.command_line import VARIABLE, processes_of
from memlint.engine.forwards import logits_of_weights
from memlint.engine.functions import call, call_function, can_follow
from memlint.engine.imported import project_constant, starred
from memlint.engine.rows import Rows, split_of
from memlint.engine.tensors import Tensor
from memlint.engine.values import (
    ABSENT,
    HERE,
    MAPPINGS,
    MAX_SIZE,
    UNKNOWN,
    Binding,
    Class,
    Constant,
    FilePath,
    Function,
    How,
    Invocation,
    Object,
    OneOf,
    Provenance,
    Sequence,
    Symbol,
    Value,
    merge,
    merge_bindings,
    options,
    path_of,
    truth,
    with_unknown_rest,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter


_PROPERTIES = frozenset({"property", "cached_property"})


def _power(base: Any, exponent: Any) -> Any:
    """Raises ValueError for numbers too large to compute."""
    if abs(exponent) > 64:
        raise ValueError(exponent)
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}

# Of a dict from which an unknown key takes something.
_MOST_CHOICES = 4

_BUILTIN_NAMES = frozenset(
    dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
)


def name_value(run: Interpreter, node: ast.Name) -> Value:
    binding = run.lookup(node.id)
    if binding is not None:
        value = binding.value
        if isinstance(value, Symbol):
            return project_constant(run, value)
        if isinstance(value, OneOf) and ABSENT in value.options:
            # Where some path leaves the name unbound, using it there would be a NameError.
            return merge(one for one in value.options if one is not ABSENT)
        return UNKNOWN if value is ABSENT else value
    if node.id in _BUILTIN_NAMES:
        return Symbol(node.id)
    if node.id == "__file__":
        return HERE
    return starred(run, node.id) if run.stars else UNKNOWN


def _attribute(run: Interpreter, node: ast.Attribute) -> Value:
    value = run.eval(node.value)
    if not isinstance(value, OneOf):
        return _read(run, value, node)
    return merge([_read(run, one, node) for one in value.options])


def _read(run: Interpreter, owner: Value, node: ast.Attribute) -> Value:
    """Return an attribute; of a property of the project's own class, what its function returns."""
    found = run.attribute_of(owner, node)
    if owner is HERE and node.attr in ("parent", "parents"):
        return HERE
    if not isinstance(found, Function) or not isinstance(owner, Object):
        return found
    decorators = getattr(found.node, "decorator_list", ())
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in decorators}
    if names.isdisjoint(_PROPERTIES):
        return found
    if not can_follow(run, found):
        return UNKNOWN
    called = ast.copy_location(ast.Call(node, [], []), node)
    value = call_function(run, found, Invocation(called, "", run._order))
    if "cached_property" in names:
        run.set_binding(owner, node.attr, Binding(value))
    return value


def _subscript(run: Interpreter, node: ast.Subscript) -> Value:
    inner = run.eval(node.value)
    key = run.eval(node.slice)
    if run.has_outputs:
        value = fields.item(run, inner, key, node)
        if value is not None:
            return value
    if not isinstance(key, Constant):
        return _some_part(run, node, inner)
    return merge([_item(run, one, key.value) for one in options(inner)])


def _item(run: Interpreter, one: Value, key: object) -> Value:
    if isinstance(one, Object) and isinstance(key, str):
        binding = run.get_binding(one, key)
        known = binding.value if binding and binding.value is not ABSENT else UNKNOWN
        return split_of(run, one, key) if known is UNKNOWN and isinstance(one, Rows) else known
    if isinstance(one, Sequence) and isinstance(key, int) and not one.open:
        inside = -len(one.items) <= key < len(one.items)
        return one.items[key] if inside else UNKNOWN
    if isinstance(one, Symbol):
        return _from_outside(run, one.name, key)
    return HERE if one is HERE else UNKNOWN  # ``Path(__file__).parents[1]``


def variable_of(run: Interpreter, name: object) -> Value | None:
    """A variable of the environment: by the launch command, a file, or how many processes it
    starts; None where nothing gives it."""
    given = run.command_line
    known = given.value(f"{VARIABLE}{name}", "str") if given is not None else None
    known = known or run.outside.get(f"{VARIABLE}{name}")
    return processes_of(run.processes, None) if known is None and name == "WORLD_SIZE" else known


def _from_outside(run: Interpreter, name: str, key: object) -> Value:
    """``os.environ["ROWS"]``; a word of the launch command, where it gives words alone: options
    would stand between."""
    if name == "os.environ":
        return variable_of(run, key) or UNKNOWN
    given = run.command_line
    if name != "sys.argv" or given is None:
        return UNKNOWN
    if isinstance(key, int) and all(map(str.isdigit, given.names)):
        return given.value(str(key - 1), "str") or UNKNOWN
    return UNKNOWN


def _some_part(run: Interpreter, node: ast.Subscript, table: Value) -> Value:
    """A part of a list that is filled elsewhere; what a key that is not known takes from a dict of
    functions or classes: one of them."""
    lists = [one.open for one in options(table) if isinstance(one, Sequence)]
    if isinstance(node.slice, ast.Slice) and any(lists) and len(lists) == len(options(table)):
        return table
    if not isinstance(table, Object) or table.type != "dict" or table.open:
        return UNKNOWN
    values = [one.value for one in run.bindings(table).values()]
    named = all(isinstance(one, Function | Class | Symbol) for one in values)
    return merge(values) if named and len(values) <= _MOST_CHOICES else UNKNOWN


def _sequence(run: Interpreter, node: ast.List | ast.Tuple | ast.Set) -> Value:
    items: list[Value] = []
    is_open = False
    size = 0
    for element in node.elts:
        if isinstance(element, ast.Starred):
            inner = run.eval(element.value)
            size += inner.size
            if isinstance(inner, Sequence) and not inner.open and run.has_room(size):
                items.extend(inner.items)
            else:
                is_open = True
        else:
            items.append(run.eval(element))
    kind = {ast.List: "list", ast.Tuple: "tuple"}.get(type(node), "set")
    run.filled[node] = run._order, run._order
    return Sequence(tuple(items), kind, node, is_open)


def _dict(run: Interpreter, node: ast.Dict) -> Value:
    made = run.new_dict(node)
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = run.eval(value_node)
        if key_node is None:
            run.update_dict(made, value)
            continue
        key = run.eval(key_node)
        if not isinstance(key, Constant) or isinstance(key.value, str):
            store_item(run, made, key, Binding(value, How.ITEM, node))
    return made


def _if_exp(run: Interpreter, node: ast.IfExp) -> Value:
    decided = truth(run.eval(node.test))
    if decided is not None:
        return run.eval(node.body if decided else node.orelse)
    run.branches += 1
    values = [run.eval(node.body), run.eval(node.orelse)]
    run.branches -= 1
    default = by_default(run, node.test)
    taken = values[not default.value] if default is not None else None
    if default is not None and isinstance(taken, Constant):
        return Constant(taken.value, taken.node, default.origin)
    if default is not None and isinstance(taken, Symbol):
        given = default.origin in (Provenance.COMMAND_LINE, Provenance.SETTLED)
        if given or _have_one_head(values):
            return taken
    return merge(values)


def _have_one_head(values: list[Value]) -> bool:
    """True for classes of models that differ in what is below the head (``...ForCausalLM``)."""
    parts = [one.name.rpartition("For") for one in values if isinstance(one, Symbol)]
    heads = {(bool(found), head) for _, found, head in parts}
    return len(parts) == len(values) and len(heads) == 1 and all(found for found, _ in heads)


_VARIABLES = ("os.environ.get", "os.getenv")


def by_default(run: Interpreter, test: ast.expr) -> Constant | None:
    """What a condition is where the defaults hold that whoever starts the script may change."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = by_default(run, test.operand)
        return Constant(not inner.value, test, inner.origin) if inner is not None else None
    decided = run.values.get(test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = (_or_unset(run, one) for one in (test.left, *test.comparators))
        decided = _compared(test.ops[0], left, right, test)
    return decided if isinstance(decided, Constant) else None


def _or_unset(run: Interpreter, node: ast.expr) -> Value | None:
    """The value of an expression; None, by default, of a variable of the environment."""
    value = run.values.get(node)
    if value is UNKNOWN and isinstance(node, ast.Call) and run.name_of(node) in _VARIABLES:
        return Constant(None, node, Provenance.ENVIRONMENT)
    return value


def _bool_op(run: Interpreter, node: ast.BoolOp) -> Value:
    wanted = isinstance(node.op, ast.Or)
    values = []
    for operand in node.values:
        value = run.eval(operand)
        decided = truth(value)
        if decided is wanted:
            values.append(value)
            break
        if decided is None or operand is node.values[-1]:
            values.append(value)
    return values[0] if len(values) == 1 else merge([*values, UNKNOWN])


def _unary(run: Interpreter, node: ast.UnaryOp) -> Value:
    value = run.eval(node.operand)
    if isinstance(node.op, ast.Not):
        decided = truth(value)
        if decided is None and isinstance(value, Constant):
            return Constant(not value.value, node, value.origin)
        return UNKNOWN if decided is None else Constant(not decided, node)
    if isinstance(value, Constant) and isinstance(value.value, int | float):
        if isinstance(node.op, ast.USub):
            return Constant(-value.value, node, value.origin)
        if isinstance(node.op, ast.UAdd):
            return Constant(value.value, node, value.origin)
    if isinstance(value, Tensor):
        return operations.arithmetic(run, value, UNKNOWN, node) or UNKNOWN
    return UNKNOWN


def _bin_op(run: Interpreter, node: ast.BinOp) -> Value:
    left, right = run.eval(node.left), run.eval(node.right)
    if run.own_passes and isinstance(node.op, ast.MatMult):
        return logits_of_weights(run, node) or binary(run, node.op, left, right, node)
    return binary(run, node.op, left, right, node)


def binary(
    run: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.expr | None
) -> Value:
    if isinstance(left, Constant) and isinstance(left.value, FilePath):
        return path_of((left, right), node)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _calculated(op, left, right, node)
    if isinstance(op, ast.BitOr) and isinstance(left, Object) and left.type == "dict":
        made = run.new_dict(node)
        run.update_dict(made, left)
        run.update_dict(made, right)
        return made
    if isinstance(op, ast.Add) and isinstance(left, Sequence) and isinstance(right, Sequence):
        if not run.has_room(left.size + right.size):
            return UNKNOWN
        return Sequence(left.items + right.items, left.kind, node, left.open or right.open)
    value = operations.arithmetic(run, left, right, node) if run.has_tensors else None
    return value or with_unknown_rest(getattr(left, "value", None))


def _calculated(op: ast.operator, left: Constant, right: Constant, node: ast.expr | None) -> Value:
    """A number from two numbers, a string from two strings; all else is unknown."""
    calculate = _BINARY.get(type(op))
    numbers = isinstance(left.value, int | float) and isinstance(right.value, int | float)
    strings = isinstance(left.value, str) and isinstance(right.value, str)
    if calculate is None or not (numbers or (strings and isinstance(op, ast.Add))):
        return UNKNOWN
    try:
        result = calculate(left.value, right.value)
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN
    # The route from outside, where one of them has come by it.
    return Constant(result, node, (left if left.origin != Provenance.LITERAL else right).origin)


def _compare(run: Interpreter, node: ast.Compare) -> Value:
    left = run.eval(node.left)
    rights = [run.eval(comparator) for comparator in node.comparators]
    if len(rights) != 1:
        return UNKNOWN
    right, op = rights[0], type(node.ops[0])
    if isinstance(left, Constant) and isinstance(right, Constant) and op in _COMPARE:
        compared = _compared(node.ops[0], left, right, node)
        return UNKNOWN if compared is None or compared.origin in _OF_CALLERS else compared
    if isinstance(right, Constant) and _is_other(run, node, left, right):
        return Constant(op in (ast.IsNot, ast.NotEq), node)
    return UNKNOWN


# What a default of these gives, another caller may give otherwise: it decides no branch.
_OF_CALLERS = (Provenance.PARAMETER, Provenance.FIELD)


def _is_other(run: Interpreter, node: ast.Compare, left: Value, right: Constant) -> bool:
    """True if it is asked whether a value is a constant that it certainly is not."""
    if isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return isinstance(left, Object) and left.type in MAPPINGS
    identity = isinstance(node.ops[0], ast.Is | ast.IsNot)
    return identity and right.value is None and _is_something(run, node.left, left)


def _compared(
    op: ast.cmpop, left: Value | None, right: Value | None, node: ast.expr
) -> Constant | None:
    """What a comparison of two constants gives, by the route of one that comes from outside."""
    if not isinstance(left, Constant) or not isinstance(right, Constant):
        return None
    compare = _COMPARE.get(type(op))
    try:
        result = compare(left.value, right.value) if compare is not None else None
    except TypeError:
        result = None
    origin = (left if left.origin is not Provenance.LITERAL else right).origin
    return Constant(bool(result), node, origin) if result is not None else None


def _joined(run: Interpreter, node: ast.JoinedStr) -> Value:
    parts: list[str] = []
    known = True
    length = 0
    origin = Provenance.LITERAL
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = run.eval(part.value)
            plain = part.format_spec is None and part.conversion == -1
            length += value.size
            plain = plain and length <= MAX_SIZE
            if plain and isinstance(value, Constant) and isinstance(value.value, str | int):
                parts.append(str(value.value))
                origin = value.origin if value.origin != Provenance.LITERAL else origin
            else:
                known = False
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    if known:
        return Constant("".join(parts), node, origin)
    return with_unknown_rest(getattr(node.values[0], "value", None))


def _lambda(run: Interpreter, node: ast.Lambda) -> Value:
    function = Function(node, run.scope)
    run.defined.append(function)
    return function


def _comprehension(run: Interpreter, node: Any) -> Value:
    outer, first = run.scope, run._order
    run.scope = run.new_scope(outer)
    run.loops += 1
    nest, run.loop_nest = run.loop_nest, (*run.loop_nest, node)
    each = _items_taken(run, node)
    for generator in node.generators:
        iterated = run.eval(generator.iter)
        known = isinstance(iterated, Sequence) and not iterated.open and iterated.items
        item = merge(iterated.items) if known and isinstance(iterated, Sequence) else UNKNOWN
        if run.has_tensors:
            item = fields.rows_of(run, generator.iter, item)
        assign(run, generator.target, item, node)
        for condition in generator.ifs:
            run.eval(condition)
    run.branches += 1
    if isinstance(node, ast.DictComp):
        run.eval(node.key)
        run.eval(node.value)
    else:
        run.eval(node.elt)
    run.branches -= 1
    run.loops -= 1
    run.loop_nest = nest
    run.scope = outer
    if each is not None:
        return each
    if isinstance(node, ast.ListComp):
        run.filled[node] = first, run._order
        return Sequence((), "list", node, open=True)
    if not isinstance(node, ast.DictComp):
        return UNKNOWN
    made = run.new_dict(node)
    source = _source_of_copy(run, node)
    made.open = source is None or source.open
    if source is not None:
        _copy_some(run, source, made, node)
    return made


def _items_taken(run: Interpreter, node: ast.expr) -> Sequence | None:
    """What ``(made[name] for name in ["model"])`` and ``[name.strip() for name in names]``
    give."""
    match node:
        case (
            ast.ListComp(elt=(ast.Subscript() | ast.Call()) as taken, generators=[one])
            | ast.GeneratorExp(elt=(ast.Subscript() | ast.Call()) as taken, generators=[one])
        ):
            names = run.eval(one.iter)
        case _:
            return None
    calls = any(isinstance(part, ast.Call) for part in ast.walk(taken))
    calls = calls and not _is_of_text(taken)
    if one.ifs or calls or not isinstance(names, Sequence) or names.open:
        return None
    values = []
    for name in names.items:
        assign(run, one.target, name, node)
        values.append(run.eval(taken))
    return Sequence(tuple(values), "list" if isinstance(node, ast.ListComp) else "tuple", node)


def _is_of_text(taken: ast.expr) -> bool:
    """True for ``name.strip()``."""
    match taken:
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr=method), args=[], keywords=[]):
            return method in ("strip", "lower", "upper")
    return False


def _source_of_copy(run: Interpreter, node: ast.DictComp) -> Object | None:
    """The dict of ``{name: value for name, value in options.items() if ...}``."""
    match node:
        case ast.DictComp(
            key=ast.Name(id=key),
            value=ast.Name(id=value),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                    iter=ast.Call(func=ast.Attribute(value=inner, attr="items"), args=[]),
                )
            ],
        ) if (key, value) == (first, second):
            source = run.values.get(inner)
            if isinstance(source, Object) and source.type == "dict":
                return source
    return None


def _copy_some(run: Interpreter, source: Object, made: Object, node: ast.DictComp) -> None:
    """Give a dict what its comprehension takes over; what it may take over may be there."""
    [loop] = node.generators
    outer, run.scope = run.scope, run.new_scope(run.scope)
    for name, binding in run.bindings(source).items():
        if not run.has_room(binding.value.size):
            made.open = True
            break
        assign(run, loop.target, Sequence((Constant(name, node), binding.value), "tuple"), node)
        taken = _are_taken(run, loop.ifs)
        if taken is not False:
            run.set_binding(made, name, binding if taken else merge_bindings([binding, None]))
    run.scope = outer


def _are_taken(run: Interpreter, conditions: list[ast.expr]) -> bool | None:
    """True if all conditions hold, False if one does not; None where that is open."""
    taken = {_is_taken(run, one) for one in conditions}
    return False if False in taken else (None if None in taken else True)


def _is_taken(run: Interpreter, condition: ast.expr) -> bool | None:
    """True if a condition holds, as ``name not in ("model", "data")``; None where that is open."""
    match condition:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as operator], comparators=[names]):
            key, among = run.eval(left), run.eval(names)
            if isinstance(key, Constant) and isinstance(among, Sequence) and not among.open:
                words = [one.value for one in among.items if isinstance(one, Constant)]
                if len(words) == len(among.items):
                    return (key.value in words) is isinstance(operator, ast.In)
            return None
        case ast.BoolOp(op=ast.And(), values=parts):
            return _are_taken(run, parts)
    return truth(run.eval(condition))


def _named(run: Interpreter, node: ast.NamedExpr) -> Value:
    value = run.eval(node.value)
    assign(run, node.target, value, node)
    return value


def _yield(run: Interpreter, node: ast.Yield | ast.YieldFrom) -> Value:
    if run.function is not None:
        run.generators.add(run.function)
    if node.value is not None:
        run.eval(node.value)
    return UNKNOWN


def _is_something(run: Interpreter, node: ast.expr, value: Value) -> bool:
    """True if a value is certainly not None; a module's pass is given something, too, of which
    nothing is known."""
    passed = (run.scope, getattr(node, "id", "")) in run.passed
    if passed and (value is UNKNOWN or isinstance(value, Object)):
        return True
    if isinstance(value, Object):
        return value.type is not None and _binding_of(run, node) not in run.unsure
    return isinstance(value, Function | Class | Sequence)


def _binding_of(run: Interpreter, node: ast.expr) -> Binding | None:
    match node:
        case ast.Name(id=name):
            return run.lookup(name)
        case ast.Attribute(value=inner, attr=name):
            thing = run.values.get(inner)
            if isinstance(thing, Object) and name in thing.names:
                return run.get_binding(thing, name)
            cls = thing.cls if isinstance(thing, Object) else thing
            return run.class_binding(cls, name) if isinstance(cls, Class) else None
    return None


EXPRESSIONS: dict[type[ast.expr], Callable[[Interpreter, Any], Value]] = {
    ast.Name: name_value,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.IfExp: _if_exp,
    ast.BoolOp: _bool_op,
    ast.UnaryOp: _unary,
    ast.BinOp: _bin_op,
    ast.Compare: _compare,
    ast.JoinedStr: _joined,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _named,
    ast.Await: lambda run, node: run.eval(node.value),
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Call: call,
}
