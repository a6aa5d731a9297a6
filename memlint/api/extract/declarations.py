"""What one release says of a class or function: parameters, fields, methods, bases, attributes.

Facts are plain JSON values, compared for equality from release to release. A parameter is
``[flags]`` where it must be given and ``[flags, default]`` otherwise; a default is its JSON form,
or ``{"e": text}`` where it is no literal. The flags are letters:

    p positional only   k keyword only   * *args   ** **kwargs   o read out of **kwargs
    > the **kwargs go to the same method of the base class
    i taken and thrown away
    d deprecated        n not accepted by the constructor (a field with init=False)
"""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from memlint.api.extract.deprecations import (
    deprecated_parameters,
    is_deprecated,
    is_named,
    renamed_keywords,
)
from memlint.api.extract.exported_names import Namespace
from memlint.api.extract.settling import settling
from memlint.api.extract.wheel import Assigned, Defined, Module, strings

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Parameter = list[Json]
Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEPRECATED = re.compile(r"(this (argument|parameter) is )?deprecated")


@dataclass
class FunctionFacts:
    parameters: dict[str, Parameter]
    deprecated: bool = False


@dataclass
class ClassFacts:
    bases: list[str]
    is_dataclass: bool
    is_open: bool
    deprecated: bool
    fields: dict[str, Parameter]
    constructor: FunctionFacts | None
    methods: dict[str, FunctionFacts]
    attributes: list[str] = field(default_factory=list)
    settled: str = ""

    @property
    def plain_attributes(self) -> list[str]:
        """Attributes that are neither fields nor methods."""
        return [
            name for name in self.attributes if name not in self.fields and name not in self.methods
        ]


class Reader:
    """Reads definitions of one wheel."""

    def __init__(self, names: Namespace) -> None:
        self.names = names

    def function(self, module: Module, node: Function) -> FunctionFacts:
        return self._function(module, node, bound=False)

    def class_(self, module: Module, node: ast.ClassDef) -> ClassFacts:
        is_dataclass = any(is_named(item, "dataclass") for item in node.decorator_list)
        functions = [part for part in _members(node) if isinstance(part, Function)]
        by_name = {function.name: function for function in functions}
        own = by_name.get("__init__")
        constructor = self._function(module, own, bound=True) if own else None
        fields = self._fields(module, node) if is_dataclass else {}
        _flag_deprecated(functions, fields, constructor.parameters if constructor else {})
        methods = {
            function.name: self._function(module, function, bound=not _is_static(function))
            for function in functions
            if _is_public_method(function)
        }
        attributes = {*fields, *by_name, *_assigned_attributes(node, functions)}
        private = {name for name in attributes if name.startswith("__")}
        return ClassFacts(
            bases=list(self._bases(module, node)),
            is_dataclass=is_dataclass,
            is_open="__getattr__" in by_name or "__getattribute__" in by_name,
            deprecated=is_deprecated(node, own or by_name.get("__post_init__")),
            fields=fields,
            constructor=constructor,
            methods=methods,
            attributes=sorted(attributes - private),
            settled=self._settled(node) if is_dataclass else "",
        )

    def _settled(self, node: ast.ClassDef) -> str:
        # The base of all, of transformers, asks devices and environments: written by hand.
        return settling(node) if self.names.wheel.package == "trl" else ""

    def _bases(self, module: Module, node: ast.ClassDef) -> Iterator[str]:
        for base in node.bases:
            name = self._base(module, base)
            if name is not None:
                yield name

    def _base(self, module: Module, node: ast.expr) -> str | None:
        if isinstance(node, ast.Subscript):
            node = node.value
        text = ast.unparse(node)
        head, _, rest = text.partition(".")
        if head == "object":
            return None
        place = self.names.place(module.name, head)
        if place is None:
            return text
        if rest:
            if place.kind == "module" and place.module in self.names.modules:
                inner = self.names.place(place.module, rest)
                if inner is not None:
                    return self.names.canonical(inner)
            return f"{self._outside(place.module, place.name)}.{rest}"
        if place.kind == "outside":
            return self._outside(place.module, place.name)
        return self.names.canonical(place)

    @staticmethod
    def _outside(module: str, name: str | None) -> str:
        return f"{module}.{name}" if name else module

    def _function(self, module: Module, node: Function, *, bound: bool) -> FunctionFacts:
        found = self._written_parameters(module, node.args)
        if bound and (own := [*node.args.posonlyargs, *node.args.args][:1]):
            del found[own[0].arg]
        for old in renamed_keywords(node):
            found.setdefault(old, ["kd", None])
        if node.args.kwarg:
            self._add_popped(module, node, node.args.kwarg.arg, found)
            forwards = _forwards(node, node.args.kwarg.arg)
            found[node.args.kwarg.arg] = ["**>" if forwards else "**"]
        for name in deprecated_parameters(node, set(found)):
            _flag(found[name], "d")
        return FunctionFacts(found, deprecated=is_deprecated(node, node))

    def _written_parameters(self, module: Module, arguments: ast.arguments) -> dict[str, Parameter]:
        """Return the parameters of a signature, ``**kwargs`` left out."""
        found: dict[str, Parameter] = {}
        ordinary = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(ordinary) - len(arguments.defaults))
        for argument, default in zip(ordinary, [*defaults, *arguments.defaults], strict=True):
            flags = "p" if argument in arguments.posonlyargs else ""
            found[argument.arg] = self._parameter(module, flags, default)
        if arguments.vararg:
            found[arguments.vararg.arg] = ["*"]
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            found[argument.arg] = self._parameter(module, "k", default)
        return found

    def _add_popped(
        self, module: Module, node: Function, keywords: str, found: dict[str, Parameter]
    ) -> None:
        """Add the options that a function reads out of its ``**keywords``."""
        for name, default, used in _popped(node, keywords):
            if name not in found:
                found[name] = self._parameter(module, "ko" if used else "koi", default)
            elif used and "i" in str(found[name][0]):
                found[name] = self._parameter(module, "ko", default)

    def _parameter(self, module: Module, flags: str, default: ast.expr | None) -> Parameter:
        return [flags] if default is None else [flags, self.value(module, default)]

    def _fields(self, module: Module, node: ast.ClassDef) -> dict[str, Parameter]:
        """Fields of a dataclass in the order of its own body."""
        found: dict[str, Parameter] = {}
        keyword_only = any(
            _true_keyword(item, "kw_only")
            for item in node.decorator_list
            if is_named(item, "dataclass")
        )
        for part in _members(node):
            if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
                continue
            annotation = ast.unparse(part.annotation)
            if re.match(r"(typing\.)?ClassVar\b", annotation.strip("'\"")):
                continue
            if annotation in ("KW_ONLY", "dataclasses.KW_ONLY"):
                keyword_only = True
                continue
            flags = "k" if keyword_only else ""
            found[part.target.id] = self._field(module, flags, part.value)
        return found

    def _field(self, module: Module, flags: str, value: ast.expr | None) -> Parameter:
        """A field of a dataclass from what is assigned to its name: a default, ``field(...)``."""
        if not isinstance(value, ast.Call) or not is_named(value, "field"):
            return self._parameter(module, flags, value)
        given = {item.arg: item.value for item in value.keywords if item.arg}
        init = given.get("init")
        if isinstance(init, ast.Constant) and not init.value:
            flags += "n"
        if _says_deprecated(given.get("metadata")):
            flags += "d"
        if "default" in given:
            return [flags, self.value(module, given["default"])]
        if "default_factory" in given:
            return [flags, self._made(module, given["default_factory"])]
        return [flags]

    def _made(self, module: Module, factory: ast.expr) -> Json:
        match factory:
            case ast.Name(id="list"):
                return []
            case ast.Name(id="dict"):
                return {}
            case ast.Lambda(body=body):
                return self.value(module, body)
            case _:
                return {"e": f"{ast.unparse(factory)}()"}

    def value(self, module: Module, node: ast.expr, depth: int = 3) -> Json:
        """JSON form of a default; names of module constants and enumeration members followed."""
        try:
            return to_json(ast.literal_eval(node))
        except (ValueError, TypeError, SyntaxError, MemoryError):
            pass
        match node if depth else None:
            case ast.Name() as name:
                return self._constant(module, name, depth)
            case ast.Attribute(value=ast.Name() as name) as member:
                return self._member(module, name, member)
            case ast.BinOp(left=left, op=operator, right=right):
                parts = self.value(module, left, depth), self.value(module, right, depth)
                result = _computed(operator, *parts)
                return result if result is not None else _as_written(node)
            case ast.Call(func=ast.Name(id="int"), args=[ast.Constant(value=float(number))]):
                return int(number)
            case ast.Tuple(elts=elements):
                values = [self.value(module, element, depth) for element in elements]
                return _as_written(node) if any(map(_is_written, values)) else {"t": values}
        return _as_written(node)

    def _constant(self, module: Module, node: ast.Name, depth: int) -> Json:
        place = self.names.place(module.name, node.id)
        if place and place.kind == "value" and place.name:
            home = self.names.modules[place.module]
            bound = home.bindings.get(place.name)
            if isinstance(bound, Assigned) and bound.value is not None:
                found = self.value(home, bound.value, depth - 1)
                if not _is_written(found):
                    return found
        return _as_written(node)

    def _member(self, module: Module, name: ast.Name, node: ast.Attribute) -> Json:
        """Return the string that a member of a string enumeration equals."""
        place = self.names.place(module.name, name.id)
        if place and place.kind == "definition" and place.name:
            bound = self.names.modules[place.module].bindings.get(place.name)
            if isinstance(bound, Defined) and isinstance(bound.node, ast.ClassDef):
                text = _string_member(bound.node, node.attr)
                if text is not None:
                    return text
        return _as_written(node)


def _string_member(enumeration: ast.ClassDef, member: str) -> str | None:
    """Return the values of a string enumeration's members; None for any other class."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in enumeration.bases}
    if not bases & {"ExplicitEnum", "StrEnum", "str"}:
        return None
    for part in enumeration.body:
        match part:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text))) if (
                target == member
            ):
                return text
    return None


def _as_written(node: ast.expr) -> Json:
    """Return a default that is no literal."""
    return {"e": ast.unparse(node)}


def _is_written(value: Json) -> bool:
    return isinstance(value, dict) and "e" in value


def _computed(operator: ast.operator, left: Json, right: Json) -> Json:
    """Evaluate an arithmetic expression of numbers; None for any other expression."""
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div() if right:
            return left / right
        case ast.Pow() if abs(right) <= 64:
            power: float = left**right
            return power
        case _:
            return None


def to_json(value: object) -> Json:
    """Raises ValueError for what JSON cannot hold exactly (bytes, sets, infinities)."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(value)
            return value
        case tuple():
            return {"t": [to_json(part) for part in value]}
        case list():
            return [to_json(part) for part in value]
        case dict() if all(isinstance(key, str) for key in value) and not (
            set(value) & {"e", "t"} and len(value) == 1
        ):
            return {str(key): to_json(part) for key, part in value.items()}
        case _:
            raise ValueError(value)


def _members(node: ast.ClassDef) -> Iterator[ast.stmt]:
    """Statements of a class body, those under conditions included."""
    pending = list(node.body)
    while pending:
        part = pending.pop(0)
        if isinstance(part, ast.If):
            pending[:0] = [*part.body, *part.orelse]
        else:
            yield part


def _assigned_attributes(node: ast.ClassDef, functions: list[Function]) -> Iterator[str]:
    for part in _members(node):
        match part:
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
    for function in functions:
        if not function.args.args:
            continue
        own = function.args.args[0].arg
        for inner in ast.walk(function):
            match inner:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()):
                    if name == own:
                        yield attribute


def _popped(node: Function, keywords: str) -> Iterator[tuple[str, ast.expr | None, bool]]:
    """Names that the body takes out of ``**keywords``: name, default, whether it is used."""
    thrown = {id(call) for statement in ast.walk(node) if (call := _thrown_away(statement))}
    for inner in ast.walk(node):
        match inner:
            case ast.For():
                yield from _popped_in_turn(inner, keywords)
            case ast.Call(args=[ast.Constant(value=str(taken)), *rest]):
                if _takes(inner, keywords) and taken.isidentifier():
                    yield taken, rest[0] if rest else None, id(inner) not in thrown


def _popped_in_turn(loop: ast.For, keywords: str) -> Iterator[tuple[str, ast.expr | None, bool]]:
    """Read ``for name in ["a", "b"]: kwargs.pop(name, None)``."""
    match loop:
        case ast.For(target=ast.Name(id=item), iter=ast.List() | ast.Tuple() as names, body=body):
            for call in filter(None, map(_thrown_away, body)):
                if _takes(call, keywords) and ast.unparse(call.args[0]) == item:
                    default = call.args[1] if call.args[1:] else None
                    yield from ((name, default, False) for name in strings(names))


def _takes(call: ast.Call, keywords: str) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=name), attr="pop"):
            return name == keywords and len(call.args) in (1, 2)
        case _:
            return False


def _thrown_away(statement: ast.AST) -> ast.Call | None:
    """Return the call whose result the statement drops."""
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return call
        case ast.Assign(targets=[ast.Name(id="_")], value=ast.Call() as call):
            return call
        case _:
            return None


def _forwards(node: Function, keywords: str) -> bool:
    """True if ``**keywords`` are handed to the base class's method of the same name."""
    for inner in ast.walk(node):
        match inner:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name),
                keywords=given,
            ) if name == node.name:
                if any(
                    item.arg is None
                    and isinstance(item.value, ast.Name)
                    and item.value.id == keywords
                    for item in given
                ):
                    return True
    return False


def _is_public_method(node: Function) -> bool:
    return not _is_property(node) and (node.name == "__call__" or not node.name.startswith("_"))


def _is_static(node: Function) -> bool:
    return any(is_named(item, "staticmethod") for item in node.decorator_list)


def _is_property(node: Function) -> bool:
    return any(
        is_named(item, "property", "cached_property", "setter") for item in node.decorator_list
    )


def _true_keyword(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and any(
        item.arg == name and isinstance(item.value, ast.Constant) and item.value.value is True
        for item in node.keywords
    )


def _says_deprecated(metadata: ast.expr | None) -> bool:
    """True if a field's help text opens by calling it deprecated."""
    match metadata:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "help":
                    opening = " ".join(strings(value)).lstrip(" [(").lower()
                    return _DEPRECATED.match(opening) is not None
    return False


def _flag_deprecated(functions: list[Function], *groups: dict[str, Parameter]) -> None:
    """Mark the parameters that a class's constructor warns of, in each group that has them."""
    named = {name for parameters in groups for name in parameters}
    for function in functions:
        if function.name in ("__init__", "__post_init__"):
            for warned in deprecated_parameters(function, named):
                for parameters in groups:
                    if warned in parameters:
                        _flag(parameters[warned], "d")


def _flag(parameter: Parameter, letter: str) -> None:
    flags = parameter[0]
    assert isinstance(flags, str)
    if letter not in flags:
        parameter[0] = flags + letter
