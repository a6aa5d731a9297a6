"""What other functions may have changed before a function runs that nothing here calls.

``self.model = None`` in a constructor says nothing of the model in ``train``: ``setup`` may have
run between. Where a function is run because nothing had called it, the constants that any other
function assigns are unknown at its start: attributes, also of classes and by ``setattr``, globals,
names of enclosing functions, items of a shared dict. An object stays what it is, but may be None.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, KeysView
from typing import TYPE_CHECKING

from memlint.engine.name_uses import local_names, parameters
from memlint.engine.values import (
    UNKNOWN,
    Binding,
    Class,
    Constant,
    Function,
    Object,
    OneOf,
    Sequence,
    Value,
    merge,
    options,
    same,
)
from memlint.source.record import NamedTuple, slotted

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter

_CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__", "__init_subclass__"})
# Statements that give nothing a value, and hold none that does.
_SET_NOTHING = frozenset(
    {ast.Return, ast.Import, ast.ImportFrom, ast.Pass, ast.Raise, ast.Assert, ast.Continue}
)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef
# Any name: what a computed ``setattr`` may set.
_ANY = "*"


class Setter(NamedTuple):
    """What gives something a value in a function. cls: the class whose method sets it on its own
    instance; empty where it is set on anything else."""

    function: ast.AST
    node: ast.AST
    cls: str


class Who:
    """All that may set something: its setters, and the functions that they are in."""

    __slots__ = ("functions", "setters")

    def __init__(self, setters: Iterable[Setter]) -> None:
        self.setters = tuple(setters)
        self.functions = frozenset(one.function for one in self.setters)


class Setters:
    """Who sets what, in all files of a run.

    names: globals, and names of enclosing functions. attributes: by name. items: of dicts that a
    name outside of the function holds, by name and key. foreign: attributes that are set on what
    is no method's instance, at the top of a file too. by_function: the attributes that each
    function sets, if any. files: how many were read.
    """

    def __init__(self) -> None:
        self.names: dict[str, list[Setter]] = defaultdict(list)
        self.attributes: dict[str, list[Setter]] = defaultdict(list)
        self.items: dict[tuple[str, str], list[Setter]] = defaultdict(list)
        self.foreign: set[str] = set()
        self.by_function: dict[ast.AST, set[str]] = defaultdict(set)
        self.files = 0
        self._families: dict[str, str] = {}
        self._by_class: dict[tuple[str, str], Who | None] = {}

    def family(self, name: str) -> str:
        """Return the name that stands for a class, its bases and all that share one with it."""
        while (other := self._families.get(name, name)) != name:
            name = other
        return name

    def of(
        self, cls: Class, names: KeysView[str] | set[str], wanted: set[str]
    ) -> Iterator[tuple[str, Who]]:
        """Yield those of ``names`` that are wanted, and that something may set on a class or its
        instances."""
        anything = self._who(cls.node.name, _ANY) if _ANY in wanted else None
        for name in names & wanted if anything is None else list(names):
            who = self._who(cls.node.name, name) or anything
            if who is not None:
                yield name, who

    def _who(self, cls: str, name: str) -> Who | None:
        """Return who may set an attribute on a class or its instances; None: nobody by its name."""
        if (cls, name) not in self._by_class:
            family = self.family(cls)
            own, anything = (
                [one for one in self.attributes.get(each, ()) if self._fits(one, family)]
                for each in (name, _ANY)
            )
            setters = own if name == _ANY else own + anything
            self._by_class[cls, name] = Who(setters) if own else None
        return self._by_class[cls, name]

    def _fits(self, setter: Setter, family: str) -> bool:
        return not setter.cls or self.family(setter.cls) == family

    def read(self, tree: ast.Module) -> None:
        """Note what a file sets."""
        self.files += 1
        self._by_class.clear()
        _Reader(self).read(tree.body, None, None)

    def relate(self, cls: ast.ClassDef) -> None:
        """Note that a class and its bases share their attributes."""
        for base in cls.bases:
            name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            if name and name != "object":
                self._families[self.family(cls.name)] = self.family(name)


class _Reader:
    """Reads the statements of a file: what sets anything is one, or the call in one."""

    def __init__(self, setters: Setters) -> None:
        self.setters = setters
        # The names that functions bind themselves: one is asked for each item that it sets.
        self._local: dict[ast.AST, frozenset[str]] = {}

    def read(
        self, body: Iterable[ast.AST], function: _Definition | None, cls: ast.ClassDef | None
    ) -> None:
        """Note what statements of a function set; cls: the class that it is a method of."""
        pending = list(body)
        for node in pending:  # grows meanwhile
            if node.__class__ in _SET_NOTHING:
                continue
            if node.__class__ is ast.Assign:
                for target in node.targets:
                    self._target(target, function, cls)
                continue
            if node.__class__ is ast.Expr and node.value.__class__ is not ast.Call:
                continue
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.read(node.body, node, cls)
                case ast.ClassDef():
                    self.setters.relate(node)
                    self.read(node.body, function, node)
                case ast.Global(names=names) | ast.Nonlocal(names=names) if function is not None:
                    for name in names:
                        self._note(self.setters.names[name], function, node)
                case ast.Expr(value=ast.Call() as call):
                    self._call(call, function, cls)
                case _:
                    for target in _targets(node):
                        self._target(target, function, cls)
                    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
                        pending += getattr(node, name, ())

    def _target(
        self, target: ast.expr, function: _Definition | None, cls: ast.ClassDef | None
    ) -> None:
        if target.__class__ is ast.Name:
            return
        match target:
            case ast.Attribute(value=base, attr=name):
                self._attribute(name, base, target, function, cls)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                if function is not None and not self._is_local(function, name):
                    self._note(self.setters.items[name, key], function, target)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="globals")), slice=ast.Constant(value=str(key))
            ) if function is not None:
                self._note(self.setters.names[key], function, target)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._target(part, function, cls)

    def _is_local(self, function: _Definition, name: str) -> bool:
        local = self._local.get(function)
        if local is None:
            local = self._local[function] = local_names(function)
        return name in local

    def _call(self, call: ast.Call, function: _Definition | None, cls: ast.ClassDef | None) -> None:
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[base, key, _]):
                spelled = str(key.value) if isinstance(key, ast.Constant) else _ANY
                self._attribute(spelled, base, call, function, cls)
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=base, attr="__dict__")
                    | ast.Call(func=ast.Name(id="vars"), args=[base]),
                    attr="update",
                )
            ):
                self._attribute(_ANY, base, call, function, cls)

    def _attribute(
        self,
        name: str,
        base: ast.expr,
        node: ast.AST,
        function: _Definition | None,
        cls: ast.ClassDef | None,
    ) -> None:
        first = next(iter(parameters(function)), None) if function is not None else None
        mine = first is not None and isinstance(base, ast.Name) and base.id == first.arg
        if not mine or cls is None:
            self.setters.foreign.add(name)
        if function is None or (mine and function.name in _CONSTRUCTORS):
            return
        owner = cls.name if mine and cls is not None else ""
        self._note(self.setters.attributes[name], function, node, owner).add(name)

    def _note(
        self, setters: list[Setter], function: ast.AST, node: ast.AST, cls: str = ""
    ) -> set[str]:
        setters.append(Setter(function, node, cls))
        return self.setters.by_function[function]


def _targets(statement: ast.AST | None) -> Iterator[ast.expr]:
    match statement:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            yield from targets
        case (
            ast.AnnAssign(target=target)
            | ast.AugAssign(target=target)
            | ast.For(target=target)
            | ast.AsyncFor(target=target)
        ):
            yield target
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (item.optional_vars for item in items if item.optional_vars is not None)


# -- at the start of a function --------------------------------------------------------------------


def forget_what_others_set(
    run: Interpreter, function: Function, others: Collection[ast.AST] | None = None
) -> None:
    """Make unknown what ``others`` (None: all) may have set before this function is called."""
    known = run.setters.by_function
    setting = set(known) if others is None else known.keys() & others
    setting.discard(function.node)
    if setting:
        wanted = set[str]().union(*map(known.__getitem__, setting))
        _Memory(run, function, setting, wanted).forget()


@slotted
class _Memory:
    """What is known where a function begins. setting: the other setters. wanted: attributes."""

    run: Interpreter
    function: Function
    setting: set[ast.AST]
    wanted: set[str]

    def forget(self) -> None:
        run, setters = self.run, self.run.setters
        scope: int | None = self.function.scope
        while scope is not None:
            for name in run.bound[scope].intersection(setters.names):
                self._name((scope, name), Who(setters.names[name]))
            scope = run.parents[scope]
        for (name, key), items in setters.items.items():
            held = run.lookup(name)
            if held is not None and isinstance(held.value, Object) and held.value.type == "dict":
                self._attribute(held.value, key, Who(items))
        if not self.wanted:
            return
        for cls in run.class_values:
            for name, who in setters.of(cls, run.bound[cls.scope], self.wanted):
                self._name((cls.scope, name), who, named=name in setters.attributes)
        for thing in run.instances:
            assert thing.cls is not None, "an instance is one of a class"
            # Nearly all instances have nothing that is wanted.
            if _ANY in self.wanted or not self.wanted.isdisjoint(thing.names):
                for name, who in setters.of(thing.cls, thing.names.keys(), self.wanted):
                    self._attribute(thing, name, who)

    def _name(self, key: tuple[int, str], who: Who, *, named: bool = True) -> None:
        """named: what sets a name that it computes fills in settings, and replaces no method."""
        binding = None if who.functions.isdisjoint(self.setting) else self.run.state.get(key)
        if binding is not None and (named or not isinstance(binding.value, Function)):
            self.run.state.facts[key] = self._unsure(binding)

    def _attribute(self, thing: Object, name: str, who: Who) -> None:
        if who.functions.isdisjoint(self.setting):
            return
        binding = self.run.get_binding(thing, name)
        if binding is None or binding in self.run.unsure:
            return
        if not _is_certain(thing, name, binding.value, who.setters):
            self.run.state.facts[id(thing), name] = self._unsure(binding)

    def _unsure(self, binding: Binding) -> Binding:
        """What was bound, or something else."""
        value = binding.value
        if binding in self.run.unsure or UNKNOWN in options(value):
            return binding
        if isinstance(value, OneOf):
            decided = not any(isinstance(one, Object) for one in value.options)
        else:
            decided = isinstance(value, Constant | Sequence | Function | Class)
        if decided:
            return Binding(merge([value, UNKNOWN]), binding.how, binding.owner)
        unsure = Binding(value, binding.how, binding.owner)
        self.run.unsure.add(unsure)
        return unsure


def _is_certain(thing: Object, name: str, value: Value, setters: tuple[Setter, ...]) -> bool:
    """True if all that sets it was run already, and always gave it this value."""
    given = thing.names[name]
    if not all(one.value is value or same(one.value, value) for one in given):
        return False
    run_already = {id(node) for one in given for node in _targets(one.owner)}
    return all(id(setter.node) in run_already for setter in setters)
