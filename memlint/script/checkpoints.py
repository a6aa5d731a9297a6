"""What a script says of a model: which checkpoint, what wraps it, what was done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.script.calls import Call, ModelFacts
from memlint.script.settings import UNSURE, python_value
from memlint.script.values import Absent, Constant, Object, Unknown, Value, options

if TYPE_CHECKING:
    from memlint.script.model import Script

_PEFT = ("get_peft_model", "PeftModel", "PeftMixedModel", "AutoPeftModel")
_KBIT = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")


def model_facts(script: Script, value: Value) -> ModelFacts:
    """What the script says of the model that ``value`` is."""
    found = [one for one in options(value) if not isinstance(one, Absent)]
    objects: list[Object] = []
    for one in found:
        while isinstance(one, Object):
            if one not in objects:
                objects.append(one)
            if one.base is None:
                break
            one = one.base
    if len(found) == 1 and isinstance(found[0], Constant) and isinstance(found[0].value, str):
        return ModelFacts(found[0].value, None, True, False, False, False, ())
    if not objects or any(isinstance(one, Unknown) for one in found):
        return ModelFacts(UNSURE, None, False, None, None, None, tuple(objects))
    chains = [chain_of(one) for one in found if isinstance(one, Object)]
    roots = {id(chain[-1].node): chain[-1] for chain in chains}
    root = next(iter(roots.values())) if len(roots) == 1 else None
    load = script.call_at(root.node) if root is not None else None
    calls = [script.call_anywhere(one.node) for one in roots.values()]
    loads = tuple(call for call in calls if call is not None)
    only = loads[0] if len(loads) == len(calls) == 1 else load
    name = _checkpoint(only) if only is not None else UNSURE
    return ModelFacts(
        name,
        load,
        False,
        _agree([_wrapped(chain, _PEFT) for chain in chains]),
        _agree([_wrapped(chain, _KBIT) for chain in chains]),
        is_quantized(only) if only is not None else None,
        tuple(objects),
        loads if len(loads) == len(calls) else (),
    )


def chain_of(made: Object) -> list[Object]:
    """An object and what it wraps or copies, innermost last."""
    chain = [made]
    while chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def _checkpoint(load: Call) -> object:
    slot = load.setting("pretrained_model_name_or_path")
    if slot.given:
        return slot.value
    value = python_value(load.argument(0))
    return value if isinstance(value, str) else UNSURE


def is_quantized(load: Call) -> bool | None:
    """Whether a ``from_pretrained`` call loads quantized weights."""
    found: list[bool | None] = []
    for name in ("quantization_config", "load_in_4bit", "load_in_8bit"):
        setting = load.setting(name)
        if setting.given is False:
            found.append(False)
        elif setting.given is None or setting.value is UNSURE:
            found.append(None)
        else:
            found.append(_is_something(setting.value))
    if True in found:
        return True
    return None if None in found else False


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


def _agree(answers: list[bool | None]) -> bool | None:
    if not answers:
        return None
    return answers[0] if len(set(answers)) == 1 else None
