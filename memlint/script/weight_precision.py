"""In which precision a script holds a model's weights, and whether it trains them."""

from memlint.engine.values import Symbol
from memlint.flow.events import EventKind, events_of
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Host, Trainer
from memlint.script.forward_passes import all_forwards_of
from memlint.script.loaded_models import (
    ModelFacts,
    calls_on,
    is_encoder,
    is_language_model,
    is_quantized,
)
from memlint.script.setups import all_trainers_of, all_training_of

# The option that says in which precision weights are loaded, newest name first.
DTYPE_OPTIONS = ("dtype", "torch_dtype")
FLOAT32 = "torch.float32"
_NAMES = {
    "float32": FLOAT32,
    "float": FLOAT32,
    "bfloat16": "torch.bfloat16",
    "float16": "torch.float16",
    "half": "torch.float16",
}
_QUANTIZING = ("quantization_config", "load_in_4bit", "load_in_8bit")
_TRAINING = (EventKind.TRAIN, EventKind.BACKWARD)
_CASTS = ("to", "half", "float", "bfloat16")


def given_dtype(load: Call) -> Setting | None:
    """The dtype option that a load gives, under either name; None where it gives none at all."""
    for name in DTYPE_OPTIONS:
        setting = load.setting(name)
        if setting.given is not False:
            return setting
    return None


def dtype_option(
    script: Host, loader: str = "transformers.AutoModelForCausalLM.from_pretrained"
) -> str:
    """What the target's ``loader`` calls the option: by an unknown name it would be refused."""
    signature = script.api.signature(loader)
    taken = signature.parameters if signature is not None else {}
    return next((name for name in DTYPE_OPTIONS if name in taken), DTYPE_OPTIONS[-1])


def dtype_name(setting: Setting) -> str | None:
    """``torch.bfloat16`` and its like; ``auto``; None where it is not known."""
    name = setting.symbol if setting.symbol is not None else setting.value
    if not isinstance(name, str):
        return None
    return _NAMES.get(name.removeprefix("torch."), name)


def is_trained(script: Host, load: Call) -> bool:
    """True if the model that ``load`` makes definitely reaches a trainer."""
    return any(
        trainer.model.load is not None
        and trainer.model.load.node is load.node
        and not trainer.model.is_toy
        for trainer in all_training_of(script)
    )


def trains_model(script: Host, load: Call) -> bool:
    """True if a trainer or a training step definitely trains the model that a call loads."""
    return is_trained(script, load) or any(
        forward.gradients is not False
        and forward.facts.load is not None
        and forward.facts.load.node is load.node
        and forward.in_training_step
        for forward in all_forwards_of(script)
    )


def weights_dtype(script: Host, trainer: Trainer) -> str | None:
    """``torch.float32`` and its like, in which a trainer's weights certainly are; else None."""
    if trainer.model.by_name:
        return _dtype_by_name(script, trainer)
    return loaded_dtype(script, trainer.model)


def loaded_dtype(script: Host, model: ModelFacts) -> str | None:
    """The dtype in which a model that a call loads certainly is when it trains; else None."""
    load = model.load
    if load is None or is_quantized(load) is not False:
        return None
    casts = casts_of(script, model)
    if casts:
        return casts[0][1] if len(casts) == 1 and not casts[0][0].conditional else None
    setting = given_dtype(load)
    if setting is not None and not setting.is_none:
        return _certain(dtype_name(setting))
    if load.has_unknown_keywords:
        return None
    stored = model.family.has("stored_float32")
    return FLOAT32 if stored or script.api.behaviour("load-dtype") == "float32" else None


def loads_float32(script: Host, trainer: Trainer) -> bool:
    """True if a trainer's weights are definitely loaded in float32, by their checkpoint too."""
    model = trainer.model
    if model.by_name:
        return weights_dtype(script, trainer) == FLOAT32
    return holds_float32(script, model)


def casts_of(script: Host, model: ModelFacts) -> list[tuple[Call, str]]:
    """The methods that cast a model's weights, each with the dtype (``torch.float32``), but for
    those after all training, as ``model.half()`` before it is saved."""
    orders = [one.order for one in all_trainers_of(script)]
    orders += [one.order for one in events_of(script) if one.kind in _TRAINING]
    last = max(orders, default=float("inf"))
    casts = ((call, _cast(script, call)) for call in calls_on(script, model, *_CASTS))
    return [(one, to) for one, to in casts if to and (one.order < last or one.in_loop)]


def holds_float32(script: Host, model: ModelFacts) -> bool:
    """True if a loaded model definitely holds float32 weights, by its checkpoint too."""
    casts = casts_of(script, model)
    if not model.loads or any(name != FLOAT32 for _, name in casts):
        return False
    widened = any(not call.conditional for call, _ in casts)
    stored = model.family.has("stored_float32")
    return all(_loads_float32(script, one, stored, widened) for one in model.loads)


def _loads_float32(script: Host, load: Call, stored: bool, widened: bool) -> bool:
    """True if a call loads float32 weights. stored: they are stored so; widened: they are made
    so."""
    layers = stored or is_language_model(load) or is_encoder(load)
    if is_quantized(load) is not False or not layers:
        return False
    if widened:
        return True
    setting = given_dtype(load)
    if setting is not None and not setting.is_none:
        name = dtype_name(setting)
        return name == FLOAT32 or (name == "auto" and stored)
    if load.has_unknown_keywords:
        return False
    # What a class makes of a configuration is of torch's own default.
    made = load.method[:1].isupper() and not script.method_calls_anywhere("set_default_dtype")
    return stored or made or script.api.behaviour("load-dtype") == "float32"


def _dtype_by_name(script: Host, trainer: Trainer) -> str | None:
    """That of a model given by name, which a trainer loads with ``model_init_kwargs``."""
    if trainer.config is None and trainer.args.given is not False:
        return None
    quantized, kwargs = trainer.setting("quantization_config"), trainer.loading_options
    if quantized.given is not False and not quantized.is_none:
        return None
    if any(script.item(kwargs.value, name) not in (MISSING, None) for name in _QUANTIZING):
        return None
    given = _dtype_in(script, kwargs.value)
    if given is not None:
        written = given.name if isinstance(given, Symbol) else given
        return _certain(written if isinstance(written, str) else None)
    default = script.api.behaviour("string-model-dtype")
    return FLOAT32 if default == "float32" else None


def _dtype_in(script: Host, options: object) -> object:
    """The dtype among a dict's items: a string, a symbol, UNSURE; None where there is none.

    None that is written out leaves the checkpoint's.
    """
    for name in DTYPE_OPTIONS:
        value = script.item(options, name)
        if value is not MISSING:
            return UNSURE if value is None else value
    return None


def _certain(name: str | None) -> str | None:
    return _NAMES.get(name.removeprefix("torch.")) if name is not None else None


def _cast(script: Host, call: Call) -> str | None:
    """The dtype that ``model.half()`` or ``model.to(torch.bfloat16)`` casts the weights to."""
    if call.method != "to":
        return _NAMES.get(call.method)
    given = [*call.node.args, *(one.value for one in call.node.keywords)]
    return next((name for one in given if (name := _certain(script.name(one)))), None)
