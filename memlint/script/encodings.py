"""Mappings of token ids that a script takes for the ids themselves.

A tokenizer's ``BatchEncoding`` maps names to ids: its length is the number of names, its first
element an ``Encoding``, and it has no operators and no methods of tensors. Source:
``transformers/tokenization_utils_base.py``, tried with ids and tensors of transformers 5.
"""

from collections.abc import Iterator

from memlint.engine.nodes import CallNode, Expression, holder_of
from memlint.engine.usage import Usage, Way
from memlint.engine.values import Object, Value, options
from memlint.script.called import Call
from memlint.script.calls import Host

# Methods that give the mapping back.
_SAME = frozenset({"to", "pin_memory"})
# What lists of numbers and tensors have, and a mapping has not.
_OF_IDS = frozenset(
    {
        *("append", "extend", "index", "insert", "count", "reverse", "sort", "remove"),
        *("shape", "size", "dim", "ndim", "numel", "dtype", "tolist", "numpy", "clone", "detach"),
        *("squeeze", "unsqueeze", "view", "reshape", "flatten", "repeat", "expand", "cuda", "cpu"),
        *("long", "repeat_interleave", "contiguous", "item", "flip", "split", "chunk"),
    }
)
_SUMS = ("Add", "Mult")
_MEASURED = frozenset({"len", "enumerate", "reversed", "sum", "max", "min"})
_TENSORS = frozenset(
    f"{module}.{name}"
    for module, names in {
        "torch": ("tensor", "as_tensor", "LongTensor", "IntTensor", "cat", "stack", "concat"),
        "numpy": ("array", "asarray", "concatenate"),
    }.items()
    for name in names
)
_IDS = ("input_ids", "labels", "decoder_input_ids")
_LIBRARIES = ("transformers.", "peft.", "trl.")


def taken_for_ids(script: Host, call: Call) -> Expression | None:
    """The first expression that certainly needs ids where ``call`` gives a mapping; None where
    there is none, or where the script treats the mapping as what it is."""
    wrong: list[Expression] = []
    for node in _places(script, call):
        use = _use(script, node)
        if use is True:
            return None
        if isinstance(use, Expression):
            wrong.append(use)
    return min(wrong, key=lambda one: (one.lineno, one.col_offset), default=None)


def _places(script: Host, call: Call) -> Iterator[Expression]:
    """Where the call's result certainly stands, and nothing else."""
    for node, value in script.evaluated():
        if all(_is_result(one, call) for one in options(value)):
            yield node


def _is_result(value: Value, call: Call) -> bool:
    while isinstance(value, Object) and value.made_by is not None:
        if value.made_by.node is call.node:
            return True
        if value.made_by.name.rpartition(".")[2] not in _SAME or value.made_by.receiver is None:
            return False
        value = value.made_by.receiver
    return False


def _use(script: Host, node: Expression) -> bool | Expression:
    """What takes ``node`` for ids; True if it is taken for a mapping, False where that is open."""
    use = script.use(node)
    match use.way:
        case Way.COMPUTED:
            return use.name in _SUMS and use.expression
        case Way.STORED if use.name in _SUMS:
            return use.places[0].node
        case Way.ITEM:
            return _item(script, use)
        case Way.READ | Way.METHOD:
            if use.name not in _OF_IDS:
                return use.name not in _SAME
            return use.expression if use.way is Way.READ else use.call.func
        case Way.LOOPED:
            # Its names, which may be what is wanted.
            return True
        case Way.GIVEN:
            return _given(script, use, node)
        case Way.HELD:
            return _element(script, use, node)
    return False


def _element(script: Host, use: Usage, node: Expression) -> bool | Expression:
    if use.name == "Dict":
        known = use.by is not None and script.python(use.by) in _IDS
        return node if known else use.by is None
    around = script.use(use.around)
    made = use.name == "List" and around.way is Way.GIVEN and _makes_tensor(script, around.call)
    return made and use.expression


def _item(script: Host, use: Usage) -> bool | Expression:
    if use.by is not None and type(script.python(use.by)) is int:
        # ``encoding[0].ids``: one row of several.
        return script.use(use.around).way in (Way.READ, Way.METHOD) or use.expression
    return use.expression if use.name in ("Slice", "Tuple") else True


def _given(script: Host, use: Usage, node: Expression) -> bool | Expression:
    if use.position is None:
        return node if use.keyword in _IDS else use.keyword is None
    plain = holder_of(use.call) is None
    if (plain and use.name in _MEASURED) or _makes_tensor(script, use.call):
        return use.expression
    made = script.call_at(use.call)
    if made is not None and made.method == "generate" and made.name.startswith(_LIBRARIES):
        return node
    # ``isinstance``, ``dict``, ``print`` or whatever else.
    return plain and use.name in ("isinstance", "hasattr", "dict")


def _makes_tensor(script: Host, call: CallNode) -> bool:
    return script.name(call.func) in _TENSORS
