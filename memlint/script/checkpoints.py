"""What a script says of a model: which checkpoint, what wraps it, what was done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.script.answers import agreed, any_of
from memlint.script.calls import Call, ModelFacts
from memlint.script.settings import UNSURE, Setting, python_value
from memlint.script.values import Absent, Constant, Object, Unknown, Value, options

if TYPE_CHECKING:
    from memlint.script.model import Script

_PEFT = ("get_peft_model", "PeftModel", "PeftMixedModel", "AutoPeftModel")
_KBIT = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")


def model_facts(script: Script, value: Value) -> ModelFacts:
    """What the script says of the model that ``value`` is."""
    found = [one for one in options(value) if not isinstance(one, Absent)]
    by_name = _name_alone(found)
    if by_name is not None:
        return ModelFacts(by_name, None, True, False, False, False, ())
    chains = [chain_of(one) for one in found if isinstance(one, Object)]
    objects = tuple(dict.fromkeys(one for chain in chains for one in chain))
    if not objects or any(isinstance(one, Unknown) for one in found):
        return ModelFacts(UNSURE, None, False, None, None, None, objects)
    loads = _loads(script, chains)
    load = loads[0] if len(loads) == 1 else None
    return ModelFacts(
        name=_checkpoint(load),
        load=script.call_at(load.node) if load is not None else None,
        by_name=False,
        peft=agreed(_wrapped(chain, _PEFT) for chain in chains),
        kbit=agreed(_wrapped(chain, _KBIT) for chain in chains),
        quantized=is_quantized(load) if load is not None else None,
        objects=objects,
        loads=loads,
    )


def _loads(script: Script, chains: list[list[Object]]) -> tuple[Call, ...]:
    """The calls of which one made what is innermost; none where something else may have."""
    nodes = {id(chain[-1].node): chain[-1].node for chain in chains}
    calls = [script.call_anywhere(node) for node in nodes.values()]
    known = tuple(call for call in calls if call is not None)
    return known if len(known) == len(calls) else ()


def chain_of(made: Object) -> list[Object]:
    """An object and what it wraps or copies, innermost last."""
    chain = [made]
    while chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def _name_alone(found: list[Value]) -> str | None:
    """The checkpoint where a model is given by its name; None for all else."""
    given = found[0] if len(found) == 1 else None
    return given.value if isinstance(given, Constant) and isinstance(given.value, str) else None


def _checkpoint(load: Call | None) -> object:
    if load is None:
        return UNSURE
    slot = load.setting("pretrained_model_name_or_path")
    if slot.given:
        return slot.value
    value = python_value(load.argument(0))
    return value if isinstance(value, str) else UNSURE


def is_quantized(load: Call) -> bool | None:
    """Whether a ``from_pretrained`` call loads quantized weights."""
    settings = map(load.setting, ("quantization_config", "load_in_4bit", "load_in_8bit"))
    return any_of(_is_given(setting) for setting in settings)


def _is_given(setting: Setting) -> bool | None:
    """Whether an option is given something that is neither None nor False."""
    if setting.given is False:
        return False
    if setting.given is None or setting.value is UNSURE:
        return None
    return _is_something(setting.value)


def _is_something(value: object) -> bool | None:
    """Whether an option that takes an object or None is given one; None where a call decides."""
    if isinstance(value, Object) and value.type is None:
        return None
    return value is not None and value is not False


def _wrapped(chain: list[Object], names: tuple[str, ...]) -> bool | None:
    """Whether what begins with one of ``names`` is in the chain (``PeftModelForCausalLM``).

    None where what an unknown call made ends it.
    """
    for one in chain:
        if one.made_by is not None:
            parts = one.made_by.name.split(".")
            if names is _PEFT and parts[-1] in ("merge_and_unload", "unload"):
                return False
            if any(part.startswith(names) for part in parts):
                return True
    return False if chain[-1].type is not None else None
