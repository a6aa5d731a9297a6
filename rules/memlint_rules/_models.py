"""Facts about models that more than one rule needs."""

from __future__ import annotations

from memlint.rule import Call, Script, Setting, Trainer

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
        for trainer in script.trainers
    )


def written_checkpoint(trainer: Trainer) -> str | None:
    """The checkpoint that the script writes for a trainer's model; None where it may be another,
    as the default of a command line."""
    model = trainer.model
    given = trainer.setting("model")
    if model.load is not None:
        given = model.load.setting("pretrained_model_name_or_path")
    return given.value if isinstance(given.value, str) and not given.by_default else None
