"""What a call gives, and what the parameters of a function hold when it runs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.binding import set_bindings
from memlint.engine.command_line import settled
from memlint.engine.command_options import command_line_default, given_to_parameter, is_click
from memlint.engine.uncalled import GET_MODEL
from memlint.engine.values import (
    ABSENT,
    UNKNOWN,
    Binding,
    Class,
    Constant,
    Function,
    How,
    Object,
    OneOf,
    Provenance,
    Sequence,
    Value,
    library_base,
    merge_bindings,
    options,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.values import Invocation

# What makes a list whose items are written where it is made.
_DISPLAYS = (ast.List, ast.Tuple, ast.Constant)


def default_of_field(run: Interpreter, maker: Invocation) -> Value:
    """What ``field(default=...)``, ``Field(8)`` or ``field(default_factory=...)`` gives."""
    if "default" in maker.keywords:
        return maker.keywords["default"].value
    if maker.arguments:
        by_place = maker.arguments[0]
        return UNKNOWN if isinstance(by_place, Constant) and by_place.value is ... else by_place
    factory = maker.keywords.get("default_factory")
    made = factory.value if factory is not None else None
    if isinstance(made, Class) and made.is_dataclass:
        fields = run.new_object(cls=made)
        run.set_fields(made, fields)
        return fields
    if not isinstance(made, Function) or not isinstance(made.node, ast.Lambda):
        return UNKNOWN
    if not isinstance(made.node.body, _DISPLAYS):
        return UNKNOWN
    outer, run.scope = run.scope, made.scope
    value = run.eval(made.node.body)
    run.scope = outer
    return value


# -- what a call gives -----------------------------------------------------------------------------


def evaluate_arguments(run: Interpreter, invocation: Invocation) -> None:
    """Evaluate what a call gives, in order, and note it in its invocation."""
    arguments: list[Value] = []
    for argument in invocation.node.args:
        if isinstance(argument, ast.Starred):
            inner = run.eval(argument.value)
            if isinstance(inner, Sequence) and not inner.open:
                arguments.extend(inner.items)
            else:
                invocation.open_arguments = True
        else:
            arguments.append(run.eval(argument))
    invocation.arguments = tuple(arguments)
    splatted = None
    for keyword in invocation.node.keywords:
        value = run.eval(keyword.value)
        if keyword.arg is not None:
            invocation.keywords[keyword.arg] = Binding(value, How.KEYWORD, invocation.node)
            continue
        splatted = splatted or run.new_dict(None)
        run.update_dict(splatted, value)
    if splatted is not None:
        for name, binding in splatted.names.items():
            current = run.get_binding(splatted, name) or binding[-1]
            if current.value is not ABSENT:
                invocation.keywords.setdefault(name, current)
        invocation.open_keywords = splatted.open
    arguments += [given.value for given in invocation.keywords.values()]
    for value in arguments:
        if isinstance(value, Object | OneOf):
            _remember(run, invocation, value)


def _remember(run: Interpreter, invocation: Invocation, value: Value) -> None:
    """Keep the bindings of an argument as they are now."""
    for option in options(value):
        if isinstance(option, Object) and id(option) not in invocation.snapshots:
            bindings = run.kept_bindings(option)
            if bindings is not None:
                invocation.snapshots[id(option)] = bindings


# -- what the parameters hold ----------------------------------------------------------------------


def bind_parameters(run: Interpreter, function: Function, invocation: Invocation | None) -> None:
    """Bind a function's parameters to what a call gives, or (None) to what nobody knows."""
    arguments = function.node.args
    parameters = [*arguments.posonlyargs, *arguments.args]
    given = list(invocation.arguments) if invocation else []
    keywords = dict(invocation.keywords) if invocation else {}
    instance = _instance(run, function) if parameters and not _is_bound(function, given) else None
    if instance is not None:
        given.insert(0, instance)
    defaults = defaults_of(arguments)
    places = min(len(parameters), len(given))
    for place, parameter in enumerate([*parameters, *arguments.kwonlyargs]):
        name = parameter.arg
        if place < places:
            value = given[place]
        elif name in keywords:
            value = keywords.pop(name).value
            place = -1
        else:
            value = _not_given(run, function, name, defaults.get(name), invocation)
        _note_passed(run, name, value, given=place < places)
        run.bind(name, value)
    if arguments.vararg:
        known = invocation is not None and not invocation.open_arguments
        rest_of = Sequence(tuple(given[len(parameters) :]), "tuple")
        run.bind(arguments.vararg.arg, run.bounded(rest_of) if known else UNKNOWN)
    if arguments.kwarg:
        rest = run.new_dict(None)
        set_bindings(run, rest, keywords)
        rest.open = invocation is None or invocation.open_keywords
        run.bind(arguments.kwarg.arg, rest)


def _note_passed(run: Interpreter, name: str, value: Value, *, given: bool) -> None:
    """Keep that a pass of a module of the script's own gets something of which nothing is known."""
    is_unknown = value is UNKNOWN or (isinstance(value, Object) and value.type is None)
    if given and run.own_passes and is_unknown:
        run.passed.add((run.scope, name))


def _is_bound(function: Function, given: list[Value]) -> bool:
    """True if a call gives the instance itself, as wrappers of methods do."""
    first = given[0] if given and function.bound is None else None
    return isinstance(first, Object) and first.cls is not None


def _instance(run: Interpreter, function: Function) -> Value | None:
    """What a method gets before its arguments: an instance or the class; None for no method."""
    owner = function.owner
    if owner is None or _has_decorator(function.node, "staticmethod"):
        return None
    bound = function.bound or run.selves.get(owner.node)
    if bound is None or (isinstance(bound, Object) and bound.made_by is None):
        bound = _heir(run, function) or bound
    if bound is None:
        bound = run.selves[owner.node] = run.new_object(type=library_base(owner), cls=owner)
        bound.open = True
        _begin(run, owner, bound)
    if function.bound is None and isinstance(bound, Object):
        bound = _any_of(run, owner, bound)
    return owner if _has_decorator(function.node, "classmethod") else bound


def _begin(run: Interpreter, owner: Class, made: Object) -> None:
    """Give what nobody made the attributes that the constructor of a base of its class sets."""
    init = run.class_binding(owner, "__init__")
    base = init.value.owner if init and isinstance(init.value, Function) else None
    like = run.selves.get(base.node, made) if base is not None else made
    for name, binding in run.bindings(like).items() if like.made_by is None else ():
        run.set_binding(made, name, binding)


def _any_of(run: Interpreter, owner: Class, last: Object) -> Object:
    """What a method that nobody calls gets, of a class of which several were made: any of them."""
    made = [one for one in run.instances if one.cls and one.cls.node is owner.node and one.made_by]
    is_trainer = (last.type or "").endswith("Trainer")  # these are given their models apart
    if is_trainer or len({one.node for one in made}) < 2:
        return last
    count, joint = run.joint.get(owner.node, (0, last))
    if count != len(made):
        joint = run.new_object(last.type, None, last.base, owner, last.node)
        joint.open = any(one.open for one in made)
        for name in {name: None for one in made for name in one.names}:
            bindings = [run.get_binding(one, name) for one in made]
            run.set_binding(joint, name, merge_bindings(bindings))
        run.joint[owner.node] = len(made), joint
    return joint


def _heir(run: Interpreter, function: Function) -> Object | None:
    """What was made of a class that has a method from a base, of which nothing was made."""
    name = getattr(function.node, "name", "")
    # Trainers are given their models apart.
    for made in run.instances if name not in GET_MODEL else ():
        known = run.class_binding(made.cls, name) if made.cls and made.made_by else None
        if known and isinstance(known.value, Function) and known.value.node is function.node:
            return made
    return None


def _not_given(
    run: Interpreter,
    function: Function,
    name: str,
    default: ast.expr | None,
    invocation: Invocation | None,
) -> Value:
    """What a parameter is that the call does not name: its default, where that is certain."""
    if invocation is not None and (invocation.open_arguments or invocation.open_keywords):
        return UNKNOWN
    value = run.values.get(default, UNKNOWN) if default is not None else None
    by_hydra = next((made for made in function.options if made.name == "hydra.main"), None)
    if by_hydra is not None:
        # The decorator's value is the configuration that it composes.
        return run.values.get(by_hydra.node, UNKNOWN)
    if invocation is None or any(is_click(made, "option", "command") for made in function.options):
        # ``main()`` of a click command: the command line gives the arguments.
        default_value = settled(run.command_line, command_line_default(function, name, value))
        return given_to_parameter(run.command_line, function, name, default_value)
    if isinstance(value, Constant):
        return Constant(value.value, value.node, Provenance.PARAMETER)
    return value or UNKNOWN


def defaults_of(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Parameter name -> default expression."""
    parameters = [*arguments.posonlyargs, *arguments.args]
    found = dict(
        zip(
            [
                parameter.arg
                for parameter in parameters[len(parameters) - len(arguments.defaults) :]
            ],
            arguments.defaults,
            strict=True,
        )
    )
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            found[parameter.arg] = default
    return found


def _has_decorator(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id == name
        for decorator in getattr(node, "decorator_list", ())
    )
