"""Where ``torch.load`` puts what it reads, and what becomes of it."""

from enum import StrEnum

from memlint.engine.nodes import CallNode, Expression, Node, called_name, holder_of
from memlint.engine.usage import Place, Usage, Way
from memlint.engine.values import (
    Absent,
    Constant,
    Function,
    Object,
    Symbol,
    Value,
    constant_text,
    options,
)
from memlint.flow.callables import ENTRIES, SHOWS
from memlint.flow.events import EventKind, events_of
from memlint.flow.following import reads_of, uses_of
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.source.patterns import lazy_pattern


class Fate(StrEnum):
    """What becomes of something that is read from a file.

    RESTORED: a module copies it to where its own tensors are. LOOKED_AT: numbers and words, which
    take no memory of a device, and what an optimizer takes for its states as it is. KEPT: what may
    be a small tensor, or the state of something that may keep it as it is. UNKNOWN: it may be used
    as it was read, or become the model's own tensors.
    """

    RESTORED = "restored"
    LOOKED_AT = "looked at"
    KEPT = "kept"
    UNKNOWN = "unknown"


_METHOD, _FUNCTION = "load_state_dict", "set_peft_model_state_dict"
_PEFT = f"peft.{_FUNCTION}"
# With these the tensors that are read replace those of the model, wherever they are.
_REPLACING = ("assign", "low_cpu_mem_usage")
_ASSIGN_POSITION = 2
# Schedules and loss scalers, whose state is a few numbers, and optimizers, which copy none.
_SMALL = lazy_pattern(r"(?i)sched|scaler|warmup|sampler|optim")
# Averages of weights, which may take what they are given as it is.
_AVERAGES = lazy_pattern(r"(?i)ema|average|avg|shadow|swa|replay|buffer")
# Items of a checkpoint that are on no device, and those that may be tensors of a number.
_WORDS = lazy_pattern(
    r"epoch|step|iter|config|cfg|hparam|args|seed|rng|version|name|vocab|loader|sampler"
)
_NUMBERS = lazy_pattern(
    r"loss|best|acc|score|metric|history|token|count|part|time|rate|bleu|rouge|perpl|lr$"
)
_LOOKS = SHOWS | {"sorted", "range", "int", "float", "bool", "str"}
_MEASURED = ("shape", "dtype", "ndim")


def fates_of(script: Host, call: Call) -> set[Fate]:
    """What becomes of what ``torch.load`` reads, over all its uses."""
    return _fates(script, call.node)


def held_checkpoints(script: Host) -> list[Call]:
    """What reads a checkpoint onto the GPU that a name keeps there while the script trains: one
    that a module copies, and that is read once and neither deleted nor bound anew."""
    events = [one for one in events_of(script) if one.kind in (EventKind.TRAIN, EventKind.BACKWARD)]
    functions = {None, *(script.function(one.node) for one in events)}
    last = max((one.order for one in events), default=0)

    def is_held(call: Call) -> bool:
        kept = [one.name for one in script.use(call.node).places if one.is_whole and not one.holder]
        devices = names_of_device(script, call.setting("map_location").raw)
        return (
            [script.is_read_once(name) for name in kept] == [True]
            and call.order < last
            and script.function(call.node) in functions
            and all(device.startswith("cuda") for device in devices)
            and fates_of(script, call) == {Fate.RESTORED}
        )

    return [call for call in script.calls_to("torch.load") if is_held(call)]


def _fates(script: Host, node: Node) -> set[Fate]:
    return {fate for use in uses_of(script, node, _is_same) for fate in _of_use(script, use)}


def _is_same(use: Usage) -> bool:
    """True if a use makes another dict of it, or a list of its entries."""
    if use.way is Way.GIVEN:
        return use.name in ("list", "get")  # ``checkpoint.get("model", checkpoint)``
    return use.way is Way.LOOPED and use.name == "DictComp"


def _of_use(script: Host, use: Usage) -> set[Fate]:
    if use.way is Way.GIVEN and use.position is not None:
        if use.name in (_METHOD, _FUNCTION):
            return {_restored(script, use.call)}
        return {Fate.LOOKED_AT if use.name in _LOOKS else Fate.UNKNOWN}
    if use.way is Way.METHOD and use.name in ENTRIES:
        return _of_item(script, use.call, use.call.args[0] if use.call.args else None)
    if use.way is Way.ITEM:
        if use.is_written:
            return {Fate.LOOKED_AT}
        return _of_item(script, use.around, use.by)
    if use.way in (Way.STORED, Way.LOOPED) and use.places:
        return _of_places(script, use)
    if use.way is Way.RETURNED and use.name == "Return":
        return _of_calls(script, use.around)
    return {Fate.LOOKED_AT if _is_look(use) else Fate.UNKNOWN}


def _of_calls(script: Host, returned: Node) -> set[Fate]:
    """What becomes of what a function returns, where nothing but plain calls of it is in sight."""
    function = script.function(returned)
    calls = script.calls_named(function.name) if function is not None else []
    plain = function is not None and len(script.mentions(function.name)) == len(calls)
    inner = any(script.function(call) is function for call in calls)
    if not plain or inner or not calls:
        return {Fate.UNKNOWN}
    return {fate for call in calls for fate in _fates(script, call)}


def _is_look(use: Usage) -> bool:
    names = use.way is Way.LOOPED and use.name != "For"
    return names or use.way in (Way.COMPARED, Way.DROPPED, Way.PRINTED) or use.name in _MEASURED


def _of_places(script: Host, use: Usage) -> set[Fate]:
    """What becomes of entries that a loop goes through, or that become items of another dict:
    ``for name, weight in state.items(): renamed[name.removeprefix("module.")] = weight``."""
    if use.way is Way.LOOPED:
        if use.name != "For" or len(use.places) == 1:
            return {Fate.LOOKED_AT}  # names of entries
        places = use.places[1:]
    else:
        places = use.places
    found: set[Fate] = set()
    for place in places:
        if place.holder is not None or script.is_shared(place.name):
            return {Fate.UNKNOWN}
        if place.item and not place.unpacked:
            found |= _of_dict(script, place)
        elif use.way is Way.LOOPED:
            for read in reads_of(script, place):
                found |= _fates(script, read)
        else:
            return {Fate.UNKNOWN}
    return found


def _of_dict(script: Host, place: Place) -> set[Fate]:
    """What becomes of a dict of which something that was read becomes an item."""
    scope = script.flow.scope(place.node)
    return {
        fate
        for read in script.flow.uses(place.name, scope)
        for use in uses_of(script, read, _is_same)
        if use.way not in (Way.STORED, Way.LOOPED) and use.name not in ENTRIES
        for fate in _of_use(script, use)
    }


def _restored(script: Host, call: CallNode) -> Fate:
    called = script.call_at(call)
    if called is None or called.is_partial or _may_replace(script, called):
        return Fate.UNKNOWN
    if script.name(call.func) == _PEFT:
        return Fate.RESTORED
    if holder_of(call) is None or called_name(call) != _METHOD:
        return Fate.UNKNOWN
    if _is_small(script, called):
        return Fate.LOOKED_AT
    return Fate.KEPT if _AVERAGES.search(script.text(call.func)) else Fate.RESTORED


def _is_small(script: Host, called: Call) -> bool:
    """True if a call restores what copies nothing, by what made it or else by its name."""
    receiver = called.receiver
    made = receiver.made_by if isinstance(receiver, Object) else None
    kind = made.name if made is not None else getattr(receiver, "type", None)
    return _SMALL.search(kind or script.text(called.node.func)) is not None


def _may_replace(script: Host, called: Call) -> bool:
    """True if a call may put the tensors themselves into the model instead of copying them."""
    own = any(map(script.definitions_of, (_METHOD, _FUNCTION)))
    if own or any(isinstance(one, Function) for one in options(script.value(called.node.func))):
        return True
    given = [called.setting(name) for name in _REPLACING]
    if any(setting.given is not False and setting.value is not False for setting in given):
        return True
    third = called.argument(_ASSIGN_POSITION)
    off = isinstance(third, Absent) or (isinstance(third, Constant) and third.value is False)
    return not off and script.name(called.node.func) != _PEFT


def _of_item(script: Host, item: Node, key: Expression | None) -> set[Fate]:
    """What becomes of ``checkpoint["model"]``, or of ``checkpoint.get("model")``."""
    name = script.python(key) if key is not None else None
    if isinstance(name, str) and _NUMBERS.search(name.lower()):
        return {Fate.KEPT}
    if isinstance(name, str) and _WORDS.search(name.lower()):
        return {Fate.LOOKED_AT}
    return _fates(script, item)


def names_of_device(script: Host, device: Value) -> tuple[str, ...]:
    """The names that a device may have: ``cuda`` and ``cpu`` of ``"cuda" if ... else "cpu"``; an
    empty string stands for what is not known."""
    found: list[str] = []
    for value in options(device):
        found += _mapped_to(script, value) or _names_of(script, value)
    return tuple(found)


def _mapped_to(script: Host, value: Value) -> list[str]:
    """Where a function or a dict puts what it is asked for; nothing for all else."""
    if isinstance(value, Function):
        # ``lambda storage, place: storage.cuda(rank)``
        body = getattr(value.node, "body", None)
        return ["cuda" if isinstance(body, CallNode) and called_name(body) == "cuda" else ""]
    if not isinstance(value, Object) or value.type != "dict":
        return []
    # ``{"cuda:0": f"cuda:{rank}"}``
    to = [binding.value for binding in script.final_bindings(value).values()]
    return [name for one in to for name in names_of_device(script, one)]


def _names_of(script: Host, value: Value) -> list[str]:
    made = script.call_anywhere(value.node) if isinstance(value, Object) else None
    if made is None or made.name != "torch.device":
        return [_name_of(value) or _formatted(made)]
    # ``torch.device(0)``: torch's current accelerator.
    found: list[str] = []
    for one in options(made.argument(0)):
        number = isinstance(one, Constant) and type(one.value) is int
        found.append(_name_of(one) or "cuda" * number)
    return found


def _name_of(value: Value) -> str:
    named = value.name if isinstance(value, Symbol) and value.name.startswith("cuda:") else ""
    return constant_text(value) or named


def _formatted(made: Call | None) -> str:
    """``"cuda:{}".format(rank)``."""
    text = constant_text(made.receiver) if made is not None and made.method == "format" else None
    return "cuda" if text is not None and text.startswith("cuda:") else ""
