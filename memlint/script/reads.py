"""What a script reads of a forward pass: which fields, and the logits of which positions."""

from collections.abc import Iterator

from memlint.engine.forwards import ForwardRun
from memlint.engine.growth import taken_apart
from memlint.engine.nodes import Expression, Node, arguments_of, key_of
from memlint.engine.operations import MEASURES
from memlint.engine.tensors import Positions, Role, Tensor, Width
from memlint.engine.usage import Way
from memlint.engine.values import Constant, Object, Value, options
from memlint.flow.callables import BY_POSITION
from memlint.flow.escapes import goes_out_of_sight
from memlint.flow.following import uses_of
from memlint.script.calls import Host
from memlint.script.forward_passes import Forward, forward_at, forwards_of
from memlint.source.patterns import lazy_pattern

# Of slices as they are written, without spaces: ``logits[:, -1]``, ``[:, :-1]``, ``[:, start:]``.
_LAST = lazy_pattern(r"[^,\d][^,]*,-1:?(,.*)?")
# What leaves a row its own.
_PICKS = frozenset({"argmax", "multinomial", "softmax", "log_softmax", "float", "squeeze"})
_SHIFTED = lazy_pattern(r"(:|\.\.\.),:-1(,:)?")
_TAIL = lazy_pattern(r"(:|\.\.\.),(?P<start>[^:,A-Za-z_]*+[A-Za-z_][^:,]*+):[^,]*(,.*)?")

# Measures that tell how many positions there are.
_SIZES = frozenset({"shape", "size", "numel", "nelement"})
# The dimensions of logits that are not the positions.
_OTHER_DIMENSIONS = (0, 2, -1, -3)

# Methods that give all fields.
_WHOLE = ("to_tuple", "keys", "items", "values", "get", "copy")


def fields_read(script: Host, forward: Forward) -> frozenset[str] | None:
    """The fields that the script reads of what a forward pass returns; None where it may go out of
    sight.

    Empty where nothing reads it.
    """
    if forward.elsewhere:
        return None
    found = {name for run in forward.runs if run.output is not None for name in run.output.made}
    scope = script.flow.scope(forward.node)
    for use in uses_of(script, forward.node):
        field = use.name if use.by is None else script.python(use.by)
        named = use.way in (Way.READ, Way.METHOD) and field not in _WHOLE
        item = use.way is Way.ITEM and isinstance(field, str)
        if script.flow.scope(use.around) is not scope or not (
            named or item or use.way is Way.DROPPED
        ):
            return None
        found |= {str(field)} if named or item else set()
    return frozenset(found)


def moves_others(script: Host, forward: Forward) -> bool | None:
    """True if the script reads what a pass returns by its place behind loss and logits, so that a
    field that is left out moves what it reads; None where what it returns goes out of sight."""
    unsure = forward.elsewhere
    for use in uses_of(script, forward.node):
        place = script.python(use.by) if use.by is not None else use.name
        is_item = use.way is Way.ITEM and not isinstance(place, str)
        if is_item and (type(place) is not int or not 0 <= place <= int(forward.labels is True)):
            return True
        if any(one.unpacked for one in use.places) or use.way is Way.LOOPED:
            return True
        if use.way in (Way.READ, Way.METHOD) and place in _WHOLE:
            return True
        unsure |= use.way not in (Way.READ, Way.METHOD, Way.ITEM, Way.DROPPED)
    return None if unsure else False


def positions_read(script: Host, forward: Forward) -> Positions:
    """Of which positions the logits are read: LAST of all rows, SOME from a computed one on, else
    UNKNOWN."""
    found: set[Positions] = set()
    for run in forward.runs:
        logits = run.output.made.get("logits") if run.output is not None else None
        if logits is None or logits.node is None:
            return Positions.UNKNOWN
        found |= _read_at(script, forward, logits.node)
    if found == {Positions.LAST}:
        return Positions.LAST
    return (
        Positions.SOME if found and found <= {Positions.LAST, Positions.SOME} else Positions.UNKNOWN
    )


def _read_at(script: Host, forward: Forward, node: Expression) -> set[Positions]:
    """The positions that are read of the tensor that an expression makes."""
    found = {Positions.ALL} if goes_out_of_sight(script, node) else set()
    for _, operation, use in script.uses_at(node):
        short = operation.rpartition(".")[2]
        if short in MEASURES or short in _SIZES:
            # How many positions there are.
            asks = short in _SIZES and not _asks(script, use)
            found |= {Positions.ALL} if asks else set()
            continue
        if short in BY_POSITION:
            inner = _read_at(script, forward, script.call_of(use) or use)
            # What picks the last position out of log-probabilities may want the others' sum.
            found |= inner - {Positions.LAST} or {Positions.ALL}
            continue
        key = key_of(use) if operation == "[]" else None
        found |= {Positions.ALL} if key is None else _read_by_key(script, forward, use, key)
    return found


def _read_by_key(
    script: Host, forward: Forward, use: Expression, key: Expression
) -> set[Positions]:
    written = "".join(script.text(key).split())
    if _LAST.fullmatch(written):
        # One row's are little.
        return {Positions.ALL if _is_of_one_row(script, use) else Positions.LAST}
    if _SHIFTED.fullmatch(written):
        return _read_at(script, forward, use) or {Positions.ALL}
    some = _TAIL.fullmatch(written) and _beside(script, use, forward)
    return {Positions.SOME if some else Positions.ALL}


def _is_of_one_row(script: Host, node: Expression) -> bool:
    """True if one number is asked for of what is picked along a tensor's rows."""
    for _, operation, use in script.uses_at(node):
        short, made = operation.rpartition(".")[2], script.call_of(use) or use
        if short == "item" or (short in _PICKS and _is_of_one_row(script, made)):
            return True
    return False


def _asks(script: Host, size: Expression) -> bool:
    """True if ``logits.shape`` or ``logits.size`` is asked for another dimension alone."""
    use = script.use(size)
    if use.way is Way.ITEM and use.by is not None:
        return script.python(use.by) in _OTHER_DIMENSIONS
    if use.way is not Way.CALLED:
        return False
    asked = [*use.call.args, *(one.value for one in use.call.keywords if one.arg == "dim")]
    alone = len(asked) == 1 and asked == arguments_of(use.call)
    return alone and script.python(asked[0]) in _OTHER_DIMENSIONS


def _beside(script: Host, use: Expression, forward: Forward) -> bool:
    """True if a use is in no loop that the forward pass is not in: one that goes by chunks."""
    around: set[Node] = set(script.flow.loops_around(forward.node))
    around.update(loop for run in forward.runs for loop in run.loops)
    return around.issuperset(script.flow.loops_around(use))


# -- caches ----------------------------------------------------------------------------------------

_CACHE = "past_key_values"


def gets_cache(forward: Forward) -> bool:
    """True if a forward pass gets keys and values of other tokens, in every run."""
    values = [_cache_of(run) for run in forward.runs]
    return all(
        value is not None
        and not any(isinstance(one, Constant) and one.value is None for one in options(value))
        for value in values
    )


def fillers_of_cache(script: Host, forward: Forward) -> tuple[Forward, ...]:
    """The forward passes that made the keys and values that another one gets."""
    found: dict[int, Forward] = {}
    for run in forward.runs:
        value = _cache_of(run)
        for one in options(value) if value is not None else ():
            if isinstance(one, Tensor):
                made = [part for part in one.history() if part.role is Role.CACHE]
                passes = [forward_of(script, part) for part in made]
            elif isinstance(one, Object):
                passes = [other for other in forwards_of(script) if _shares(other, one, run)]
            else:
                passes = []
            found |= {id(each): each for each in passes if each is not None and each is not forward}
    return tuple(found.values())


def _cache_of(run: ForwardRun) -> Value | None:
    binding = run.invocation.keywords.get(_CACHE)
    return binding.value if binding is not None else None


def _shares(other: Forward, cache: Object, run: ForwardRun) -> bool:
    """True if an earlier pass got the same cache, which it filled."""
    return any(
        earlier.order < run.order and (value := _cache_of(earlier)) is not None
        and any(one is cache for one in options(value))
        for earlier in other.runs
    )  # fmt: skip


def reads_as_tuple(script: Host) -> Iterator[Expression]:
    """Yield where a decoder's cache is taken for a tuple of keys and values: it is indexed, or gone
    through in pairs."""
    for node in taken_apart(script):
        tensors = script.tensors(node)
        passes = [forward_of(script, one) for one in tensors if one.operation == _CACHE]
        decoders = [one for one in passes if one and one.facts.causal_lm and not one.own]
        if decoders and len(decoders) == len(tensors):
            yield node


# -- tensors ---------------------------------------------------------------------------------------


def forward_of(script: Host, tensor: Tensor) -> Forward | None:
    """The forward pass that a tensor comes from."""
    run = tensor.forward
    return forward_at(script, run.invocation.node) if run is not None else None


def is_vocabulary_wide(script: Host, tensor: Tensor) -> bool | None:
    """True if a tensor certainly has a number for every word of a vocabulary."""
    if tensor.width is not Width.LOGITS:
        return None if tensor.width is Width.UNKNOWN else False
    forward = forward_of(script, tensor)
    return forward.language_model if forward is not None else None


def is_sometimes_tensor(script: Host, node: Expression) -> bool:
    """True if an expression is a tensor on some paths, and may be something else on others."""
    some = any(isinstance(one, Tensor) for one in options(script.value(node)))
    return some and not script.tensors(node)
