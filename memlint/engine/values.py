"""What the script model knows of an expression's value.

The domain of the abstract interpreter: constants that remember where they are written, qualified
names, objects made by calls, functions and classes of the script itself, and honest ignorance.
A value that may be several things is a ``OneOf``; what cannot be followed is ``Unknown``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import StrEnum

from memlint.source.record import NamedTuple, new, slotted


class Provenance(StrEnum):
    """By which route a value reaches its use."""

    LITERAL = "literal"
    ARGPARSE = "argparse default"
    CLICK = "option default"
    PARAMETER = "parameter default"
    FIELD = "dataclass field"
    PARSED_FIELD = "dataclass field that a run can set"
    LIBRARY = "library default"
    COMMAND_LINE = "launch command"
    SETTLED = "default that the launch command leaves"
    ENVIRONMENT = "default where a variable of the environment is not set"


# A value that holds more is not followed: so much is walked and compared many times.
MAX_SIZE = 1 << 18


class Value:
    """Base of all abstract values.

    The small ones are made some thousand times a script: written out, they are made three times as
    fast as dataclasses, and importing them costs nothing. They are never changed.

    size: how much it holds: characters of a text, values of a sequence with all within them. What
        holds the same value twice counts it twice: so much is walked, printed and compared.
    """

    __slots__: tuple[str, ...] = ()
    size: int = 1

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name != "size")
        return f"{type(self).__name__}({', '.join(fields)})"


class Constant(Value):
    """A Python literal. ``node`` is the expression where it is written, None where ambiguous; it
    and the origin do not count in comparisons."""

    __slots__ = ("node", "origin", "size", "value")

    def __init__(
        self, value: object, node: ast.expr | None = None, origin: Provenance = Provenance.LITERAL
    ) -> None:
        self.value = value
        self.node = node
        self.origin = origin
        if isinstance(value, str | bytes):
            self.size = len(value)
        elif isinstance(value, int):
            # Python itself prints no number of more than 4,300 digits.
            self.size = 1 + (value.bit_length() >> 12) * MAX_SIZE
        else:
            self.size = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is Constant and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@slotted
class Symbol(Value):
    """Something imported or built in, by qualified name: ``torch.bfloat16``. ``node`` is the
    expression where it is written, None where ambiguous; names alone are compared."""

    name: str
    node: ast.expr | None = None
    origin: Provenance = Provenance.LITERAL

    def __eq__(self, other: object) -> bool:
        return type(other) is Symbol and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Sequence(Value):
    """A list, tuple or set display. ``open`` means that it may hold more."""

    __slots__ = ("items", "kind", "node", "open", "size")

    def __init__(
        self,
        items: tuple[Value, ...],
        kind: str,
        node: ast.expr | None = None,
        open: bool = False,  # noqa: A002
    ) -> None:
        self.items = items
        self.kind = kind
        self.node = node
        self.open = open
        self.size = 1 + sum([item.size for item in items])

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Sequence
            and self.items == other.items
            and self.kind == other.kind
            and self.open == other.open
        )

    def __hash__(self) -> int:
        return hash((self.items, self.kind, self.open))


@slotted
class Object(Value):
    """Something with identity: made by a call, or a dict. Its bindings live in the state.

    type: qualified name of its class as far as it is known (``dict`` for dictionaries).
    made_by: the call that made it.
    base: the object that it wraps (``get_peft_model(model)`` wraps ``model``) or copies.
    cls: the script's own class that it is an instance of.
    names: every binding that it was ever given, by name.
    open: bindings that are not named here may exist too (a ``**`` of something unknown).
    from_command_line: a command line or a file fills it in.
    """

    type: str | None = None
    made_by: Invocation | None = None
    base: Object | None = None
    cls: Class | None = None
    node: ast.AST | None = None
    from_command_line: bool = False
    open: bool = False
    names: dict[str, list[Binding]] = new(dict)

    def __repr__(self) -> str:
        return f"<{self.type or 'object'}>"

    @property
    def root(self) -> Object:
        """What it wraps or copies at the end; itself where it does neither."""
        root = self
        while root.base is not None:
            root = root.base
        return root


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@slotted
class Function(Value):
    """A function of the script. ``bound``: its ``self``; ``scope``: where it was defined."""

    node: FunctionNode
    scope: int
    bound: Value | None = None
    owner: Class | None = None
    options: tuple[Invocation, ...] = ()


@slotted
class Class(Value):
    """A class of the script. ``scope`` holds its class attributes; ``bases`` as evaluated."""

    node: ast.ClassDef
    scope: int
    bases: tuple[Value, ...]
    is_dataclass: bool = False


@slotted
class Partial(Value):
    """``functools.partial`` of something, with the call that made it."""

    callee: Value
    made_by: Invocation


class OneOf(Value):
    """One of several values, depending on the path."""

    __slots__ = ("options", "size")

    def __init__(self, options: tuple[Value, ...]) -> None:
        self.options = options
        self.size = sum([option.size for option in options])

    def __eq__(self, other: object) -> bool:
        return type(other) is OneOf and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.options)


class Unknown(Value):
    """Not followed. There is one: ``UNKNOWN``."""

    __slots__ = ()


class Absent(Value):
    """No such key, attribute or binding. There is one: ``ABSENT``."""

    __slots__ = ()


class Opaque(Unknown):
    """Not followed, and known to be one thing: a module whose mode the script sets."""

    __slots__ = ()


UNKNOWN = Unknown()
ABSENT = Absent()
# A device of CUDA whose number is not known.
_NUMBERED = Symbol("cuda:?")


def with_unknown_rest(begins: object) -> Value:
    """What a text of which only its beginning is known stands for: ``f"cuda:{rank}"`` is a GPU."""
    is_gpu = isinstance(begins, str) and begins.startswith("cuda:")
    return _NUMBERED if is_gpu else UNKNOWN


class How(StrEnum):
    """In which form a setting stands in the script."""

    KEYWORD = "keyword"
    POSITIONAL = "positional"
    ITEM = "item of a dict display"
    SUBSCRIPT = "subscript assignment"
    ATTRIBUTE = "attribute assignment"
    FIELD = "dataclass field"
    ARGPARSE = "add_argument"
    FILE = "settings file"
    OTHER = "other"


@slotted
class Binding:
    """A value under a name, and what holds it. Never changed.

    owner: the call, dict display, assignment statement or field where the name stands; None where
    several paths set it in different places.
    """

    value: Value
    how: How = How.OTHER
    owner: ast.AST | None = None

    def __repr__(self) -> str:
        return f"Slot({self.value!r}, {self.how.value})"


# Types of objects that hold items under names.
MAPPINGS = ("dict", "omegaconf.DictConfig")
_NOTHING = Binding(ABSENT)
# A value that may be more things than this is not followed.
_MOST_OPTIONS = 6


def options(value: Value) -> tuple[Value, ...]:
    """The values that ``value`` may be."""
    return value.options if isinstance(value, OneOf) else (value,)


def constant_text(value: Value | None) -> str | None:
    """The text that a value certainly is; None for all else."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


class FilePath(NamedTuple):
    """A path, which is no string; the text is empty where a part of it is not known."""

    text: str

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


# A path near the script, by ``__file__`` or the working folder.
HERE = Constant(FilePath("."))


def path_of(parts: tuple[Value, ...], node: ast.expr | None) -> Value:
    """``Path("conf") / "train.yaml"``, ``os.path.join(ROOT, name)``."""
    if all(one is HERE for one in parts):
        return HERE
    texts = [path_text(one) or "" for one in parts]
    return Constant(FilePath("/".join(texts) if all(texts) else ""), node)


def path_text(value: Value | None) -> str | None:
    """The text that a value certainly is, or that of a path; None for all else."""
    if isinstance(value, Constant) and isinstance(value.value, FilePath):
        return value.value.text
    return constant_text(value)


def first_object(values: Iterable[Value]) -> Object | None:
    """The first object that one of ``values`` may be."""
    for value in values:
        for one in options(value):
            if isinstance(one, Object):
                return one
    return None


@slotted
class Invocation:
    """A call as it was evaluated once.

    name: qualified name of the callee; ``?.method`` for a method of something unknown.
    arguments: positional values, in order.
    keywords: by name, those of splatted dicts included.
    open_arguments, open_keywords: an argument list of unknown length was splatted in.
    receiver: the object whose method is called.
    contexts: qualified names of the ``with`` items and decorators it runs under.
    gradients: whether autograd records then; None where that is not known.
    conditional: whether some undecided condition guards it. in_loop: whether a loop repeats it.
    loops: the loops around it, outermost first, those of callers included.
    order: number of the evaluation; later calls have larger numbers.
    candidates: the qualified names of which one is called, where several may be.
    snapshots: for each argument that is an object, its bindings when the call was made.
    """

    node: ast.Call
    name: str
    order: int
    receiver: Value | None = None
    contexts: tuple[str, ...] = ()
    gradients: bool | None = True
    conditional: bool = False
    in_loop: bool = False
    function: ast.AST | None = None
    loops: tuple[ast.AST, ...] = ()
    arguments: tuple[Value, ...] = ()
    keywords: dict[str, Binding] = new(dict)
    open_arguments: bool = False
    open_keywords: bool = False
    snapshots: dict[int, dict[str, Binding]] = new(dict)
    subclass: ast.ClassDef | None = None
    candidates: tuple[str, ...] = ()
    is_partial: bool = False

    def __repr__(self) -> str:
        return f"<{self.name} line {self.node.lineno}>"

    @property
    def first_object(self) -> Object | None:
        """The object that a call is about: its first argument, by position or by name."""
        given = self.arguments[:1] or [binding.value for binding in self.keywords.values()][:1]
        return first_object(given)

    @property
    def receiver_object(self) -> Object | None:
        """The object whose method is called."""
        return first_object((self.receiver,)) if self.receiver is not None else None


# What gives a class a constructor that takes its fields.
SETTINGS = frozenset({"pydantic.BaseSettings", "pydantic_settings.BaseSettings"})
MODELS_OF_DATA = SETTINGS | {"pydantic.BaseModel"}
# What gives a class neither methods nor settings.
_ABSTRACT = frozenset({"abc.ABC", "typing.Protocol", "typing.Generic", "pydantic.BaseModel"})


def library_base(cls: Class) -> str | None:
    """The qualified name of the library class that a class of the script derives from."""
    for base in cls.bases:
        for one in options(base):
            if isinstance(one, Symbol) and "." in one.name and not one.name.startswith("."):
                if one.name in _ABSTRACT:
                    continue
                return one.name
            if isinstance(one, Class):
                found = library_base(one)
                if found is not None:
                    return found
    return None


def same(left: Value, right: Value) -> bool:
    """True if two values are certainly the same (``True`` is not ``1`` here)."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, Constant) and isinstance(right, Constant):
        return type(left.value) is type(right.value) and left.value == right.value
    return left == right


def merge(values: Iterable[Value]) -> Value:
    """What is known when any of ``values`` may be the case."""
    values = tuple(values)
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        # Nearly all merges are of two: an arm and another, what was and what is.
        one, other = values
        if one is other:
            return one
        if not isinstance(one, OneOf) and not isinstance(other, OneOf):
            return _merge_same(one, other) if same(one, other) else OneOf(values)
    found: list[Value] = []
    for value in values:
        for option in options(value):
            for index, other in enumerate(found):
                if option.__class__ is other.__class__ and same(option, other):
                    found[index] = _merge_same(other, option)
                    break
            else:
                found.append(option)
                if len(found) > _MOST_OPTIONS:
                    return UNKNOWN
    if len(found) == 1:
        return found[0]
    return OneOf(tuple(found)) if found else UNKNOWN


def _merge_same(left: Value, right: Value) -> Value:
    """Two equal values; the place is kept only where both name the same one."""
    if isinstance(left, Constant) and isinstance(right, Constant) and left.node is not right.node:
        return Constant(left.value, None, left.origin)
    if isinstance(left, Symbol) and isinstance(right, Symbol) and left.node is not right.node:
        return Symbol(left.name, None, left.origin)
    return left


def merge_bindings(bindings: Iterable[Binding | None]) -> Binding:
    """``merge`` for bindings; None stands for a path on which the name is not set."""
    found = [binding or _NOTHING for binding in bindings]
    first = found[0]
    for binding in found:
        if binding is not first:
            break
    else:
        return first
    value = merge([binding.value for binding in found])
    held: Binding | None = None
    for binding in found:
        if binding.value is ABSENT:
            continue
        if held is None:
            held = binding
        elif binding.owner is not held.owner:
            return Binding(value)
    return Binding(value, held.how, held.owner) if held is not None else Binding(value)


def truth(value: Value) -> bool | None:
    """True if a condition is decided by what is written in the script, and how.

    Defaults of command lines decide nothing: the user can change them from outside.
    """
    match value:
        case Constant(
            value=constant, origin=Provenance.LITERAL | Provenance.PARAMETER | Provenance.FIELD
        ):
            return bool(constant)
        case Function() | Class():
            return True
        case Sequence(items=items, open=False, kind=kind):
            # An empty list is there to be filled, maybe by a function that is not followed.
            return True if items else (False if kind == "tuple" else None)
        case _:
            return None
