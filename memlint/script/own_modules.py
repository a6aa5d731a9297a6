"""What a model of the script's own classes is built of: the layers of torch that its constructor
makes, each with how often."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from memlint.engine.constants import python_value
from memlint.engine.name_uses import parameters
from memlint.engine.nodes import Definition, Node, calls_in
from memlint.engine.values import Function, Invocation, Object, Value, options
from memlint.engine.values import Sequence as Items
from memlint.script.call_settings import MISSING, UNSURE
from memlint.script.calls import Host
from memlint.source.record import NamedTuple

_NN = "torch.nn."
_MAPS = ("in_features", "out_features", "bias")
_CONVOLUTION = ("in_channels", "out_channels", "kernel_size", "stride")
_NORM = ("normalized_shape", "eps", "elementwise_affine", "bias")
# The layers of torch that hold weights, with their parameters in order.
_LAYERS = {
    "Linear": _MAPS,
    "Embedding": ("num_embeddings", "embedding_dim"),
    "LayerNorm": _NORM,
    "RMSNorm": _NORM[:3],
    "Conv2d": _CONVOLUTION,
    "Dropout": ("p",),
    "GELU": ("approximate",),
    **dict.fromkeys(("ReLU", "SiLU"), ()),
    "Parameter": ("data",),
}
# Those that hold none.
_PLAIN = frozenset(
    {
        *("Module", "ModuleList", "ModuleDict", "Sequential", "Identity", "Softmax", "Tanh"),
        *("Sigmoid", "Flatten", "CrossEntropyLoss", "Dropout1d", "Mish"),
        *("BCEWithLogitsLoss", "MSELoss", "NLLLoss", "LogSoftmax", "ParameterList", "Buffer"),
    }
)
_LOADS = ("from_pretrained", "from_config", "create_model", "deepcopy", "copy", "load")
_OPEN = (None, UNSURE, MISSING)
_FACTORIES = ("zeros", "ones", "empty", "randn", "rand")


class OwnLayer(NamedTuple):
    """A layer of torch that a constructor makes.

    kind: the name of its class. sizes: what it is given, by name. turns: how often each loop of
    the model around it turns, outermost first. maker: the constructor. shared: its weight is
    another's.
    """

    kind: str
    sizes: dict[str, Any]
    turns: tuple[int, ...]
    maker: Node | None
    shared: bool


class OwnModuleError(ValueError):
    """What of a module nobody can read."""


def own_layers_of(script: Host, module: Object) -> tuple[OwnLayer, ...]:
    """The layers of a module of the script's own, in the order in which they are made.

    Raises:
        OwnModuleError: some of it is made where nobody can see it.
    """
    init, made = script._run.attribute(module, "__init__"), module.made_by
    if not isinstance(init, Function) or made is None:
        raise OwnModuleError("its constructor")
    runs = [one for one in script._run.extents.get(init.node, ()) if one[0] >= made.order]
    if not runs:
        raise OwnModuleError("its constructor")
    within = script._invocations_between(*min(runs))
    objects = {id(one.made_by): one for one in script._run.objects if one.made_by is not None}
    own = [objects[id(one)] for one in within if one.subclass and id(one) in objects]
    _require_inits(script, [one for one in own if (one.type or "").startswith(_NN)], min(runs))
    return tuple(_layers(script, within, objects, len(made.loops)))


def _layers(
    script: Host, within: Sequence[Invocation], objects: dict[int, Object], outer: int
) -> Iterator[OwnLayer]:
    for one in within:
        kind = one.name.removeprefix(_NN) if one.name.startswith(_NN) else ""
        if _is_unseen(one):
            raise OwnModuleError(f"`{one.name}`")
        names = _LAYERS.get(kind)
        if one.subclass is not None or "." in kind or names is None:
            if kind[:1].isupper() and one.subclass is None and kind.partition(".")[0] not in _PLAIN:
                raise OwnModuleError(f"`nn.{kind}`")
            continue
        if (runs := script.runs_by_default(one.node)) is False:
            continue
        if runs is None:
            raise OwnModuleError(f"`nn.{kind}`, which a switch decides")
        sizes = _sizes(one, names)
        if kind == "Parameter":
            sizes = {"shape": _shape(one, within)}
        turns = tuple(_turns(script, loop, within) for loop in one.loops[outer:])
        made = objects.get(id(one))
        shared = made is not None and "weight" in made.names
        yield OwnLayer(kind, sizes, turns, one.function, shared)


def _is_unseen(one: Invocation) -> bool:
    """True if a class of some other library is made, a module loaded or copied."""
    last = one.name.rpartition(".")[2]
    is_class = last[:1].isupper() and not last.isupper() and one.subclass is None
    elsewhere = is_class and "." in one.name and not one.name.startswith("torch.")
    return elsewhere or last in _LOADS


def _require_inits(script: Host, objects: Sequence[Object], extent: tuple[int, int]) -> None:
    """Raises: the constructor of one of the script's modules was not run, as too many are made."""
    left: Counter[Node] = Counter()
    for one in objects:
        init = script._run.attribute(one, "__init__")
        if not isinstance(init, Function):
            raise OwnModuleError("a constructor")
        if init.node not in left:
            runs = script._run.extents.get(init.node, ())
            left[init.node] = sum(extent[0] <= first and last <= extent[1] for first, last in runs)
        left[init.node] -= 1
    if any(count < 0 for count in left.values()):
        raise OwnModuleError("a constructor")


def _sizes(one: Invocation, names: Sequence[str]) -> dict[str, Any]:
    """What a call is given, by name; without what is not known of its options."""
    values: dict[str, Value] = dict(zip(names, one.arguments, strict=False))
    values |= {name: each.value for name, each in one.keywords.items()}
    if one.open_arguments or one.open_keywords:
        raise OwnModuleError(f"the options of `{one.name}`")
    sizes = {name: _plain(each) for name, each in values.items()}
    if type(sizes.get("bias", True)) is not bool or sizes.get("p", 0) in _OPEN:
        raise OwnModuleError(f"an option of `{one.name}`")
    return sizes


def _plain(value: Value) -> Any:
    if isinstance(value, Items) and not value.open:
        return tuple(map(_plain, value.items))
    return python_value(value)


def _shape(one: Invocation, within: Sequence[Invocation]) -> tuple[int, ...]:
    """The shape of the tensor that becomes a parameter."""
    inside = set(calls_in(one.node))
    made = [
        each
        for each in within
        if each.node in inside
        and each.order > one.order
        and each.name.rpartition(".")[2] in _FACTORIES
    ]
    if not made:
        raise OwnModuleError("the shape of an `nn.Parameter`")
    given = min(made, key=lambda each: each.order).arguments
    sizes = given[0].items if len(given) == 1 and isinstance(given[0], Items) else given
    shape = tuple(map(_plain, sizes))
    if not shape or any(type(size) is not int for size in shape):
        raise OwnModuleError("the shape of an `nn.Parameter`")
    return shape


def _turns(script: Host, loop: Node, within: Sequence[Invocation]) -> int:
    """How often a loop of a constructor turns."""
    generators = getattr(loop, "generators", None)
    one = generators[0] if generators and len(generators) == 1 else loop
    taken = getattr(one, "iter", None)
    if taken is None or getattr(one, "ifs", None):
        raise OwnModuleError("how many layers it has")
    value = script._run.values.get(taken)
    if isinstance(value, Items) and not value.open:
        return len(value.items)
    made = [each for each in within if each.node is taken and each.name == "range"]
    given = [_plain(each) for each in made[0].arguments] if made else []
    if not given or any(type(each) is not int for each in given):
        raise OwnModuleError("how many layers it has")
    return len(range(*given))


def numbers_of(script: Host, maker: Node | None) -> dict[str, int]:
    """The whole numbers that a constructor is given, alone or in a configuration, and those that
    its objects keep, by their names."""
    found: dict[str, int] = {}
    if isinstance(maker, Definition):
        cls = script.class_of(maker)
        for one in script._run.instances:
            if one.cls is not None and one.cls.node is cls and one.made_by is not None:
                numbers = {name: _plain(value) for name, value in _held(script, one, maker).items()}
                found |= {name: value for name, value in numbers.items() if type(value) is int}
    return found


def _held(script: Host, one: Object, maker: Definition) -> dict[str, Value]:
    """What a constructor is given and what its object keeps, and what these hold in turn."""
    run, made = script._run, one.made_by
    names = (each.arg for each in parameters(maker)[1:])
    given = dict(zip(names, made.arguments if made else (), strict=False))
    given |= {name: each.value for name, each in (made.keywords if made else {}).items()}
    given |= {name: each.value for name, each in run.bindings(one).items()}
    inner = [each for value in given.values() for each in options(value)]
    for held in (each for each in inner if isinstance(each, Object)):
        given = {name: each.value for name, each in run.bindings(held).items()} | given
    return given
