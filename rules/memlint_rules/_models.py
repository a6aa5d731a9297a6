"""Facts about models that more than one rule needs."""

from __future__ import annotations

from memlint.rule import MISSING, UNSURE, Call, Object, Script, Setting, Symbol, Trainer

# The option that says in which precision weights are loaded, newest name first.
DTYPE_OPTIONS = ("dtype", "torch_dtype")
FLOAT32 = frozenset({"torch.float32", "torch.float"})
HALF = frozenset({"torch.bfloat16", "torch.float16", "torch.half"})
_NAMES = {"float32": "torch.float32", "bfloat16": "torch.bfloat16", "float16": "torch.float16"}

LANGUAGE_MODEL_LOADERS = ("CausalLM", "LMHead", "Seq2SeqLM", "ConditionalGeneration")


def loads_language_model(load: Call) -> bool:
    """Whether a ``from_pretrained`` loads a decoder or encoder-decoder language model."""
    return any(part in load.name for part in LANGUAGE_MODEL_LOADERS)


def given_dtype(load: Call) -> Setting | None:
    """The dtype option that a load gives, None where it gives none on any path."""
    for name in DTYPE_OPTIONS:
        setting = load.setting(name)
        if setting.given is not False:
            return setting
    return None


def dtype_name(setting: Setting) -> str | None:
    """``torch.bfloat16`` and its like; ``auto``; None where it is not known."""
    if setting.symbol is not None:
        return setting.symbol
    if isinstance(setting.value, str):
        return _NAMES.get(setting.value.removeprefix("torch."), setting.value)
    return None


def trains_language_model(trainer: Trainer) -> bool:
    """Whether a trainer surely trains a language model worth its memory. TRL's do nothing else."""
    if trainer.model.is_toy:
        return False
    if trainer.kind.startswith("trl."):
        return True
    load = trainer.model.load
    return load is not None and loads_language_model(load)


def is_trained(script: Script, load: Call) -> bool:
    """Whether the model that ``load`` makes surely reaches a trainer."""
    return any(
        trainer.model.load is not None
        and trainer.model.load.node is load.node
        and not trainer.model.is_toy
        for trainer in script.training
    )


def written_checkpoint(trainer: Trainer) -> str | None:
    """The checkpoint that the script writes for a trainer's model; None where it may be another,
    as the default of a command line."""
    model = trainer.model
    given = trainer.setting("model")
    if model.load is not None:
        given = model.load.setting("pretrained_model_name_or_path")
    return given.value if isinstance(given.value, str) and not given.by_default else None


def weights_dtype(script: Script, trainer: Trainer) -> str | None:
    """``torch.float32`` and its like, in which a trainer's weights certainly are; else None."""
    model = trainer.model
    if model.by_name:
        return _string_model_dtype(script, trainer)
    load = model.load
    if load is None or script.is_quantized(load) is not False:
        return None
    casts = [_cast(script, call) for call in script.calls_on(model, *_CASTS)]
    if any(casts):
        return casts[0] if len(casts) == 1 else None
    setting = given_dtype(load)
    if setting is not None and not setting.is_none:
        return _certain(dtype_name(setting))
    unseen = load.open_ended or script.api.behaviour("load-dtype") != "float32"
    return None if unseen else "torch.float32"


def _string_model_dtype(script: Script, trainer: Trainer) -> str | None:
    """That of a model given by name, which a trainer loads with ``model_init_kwargs``."""
    holders = [one for one in (trainer, trainer.config) if one is not None]
    if trainer.config is None and trainer.args.given is not False:
        return None
    for holder in holders:
        kwargs = holder.setting("model_init_kwargs")
        if kwargs.given is False or kwargs.is_none:
            continue
        if not isinstance(kwargs.value, Object) or kwargs.value.type != "dict":
            return None
        for name in DTYPE_OPTIONS:
            value = script.item(kwargs.value, name)
            if value is UNSURE:
                return None
            if value is not MISSING and value is not None:
                return _named(value)
    default = script.api.behaviour("string-model-dtype")
    return "torch.float32" if default == "float32" else None


def _named(value: object) -> str | None:
    if isinstance(value, Symbol):
        return _certain(value.name)
    name = value.removeprefix("torch.") if isinstance(value, str) else ""
    return _NAMES.get(name)


def _certain(name: str | None) -> str | None:
    return name if name in FLOAT32 | HALF else None


def _cast(script: Script, call: Call) -> str | None:
    """The dtype that ``model.half()`` or ``model.to(torch.bfloat16)`` casts the weights to."""
    if call.method != "to":
        return _NAMES.get({"half": "float16", "float": "float32"}.get(call.method, call.method))
    given = [*call.node.args, *(one.value for one in call.node.keywords)]
    return next((name for one in given if (name := _certain(script.name(one)))), None)


_CASTS = ("to", "half", "float", "bfloat16")
