"""Facts about models, under the names that rules had for them before the script model's."""

from __future__ import annotations

from memlint.rule import Call, Script, Trainer

FLOAT32 = frozenset({"torch.float32"})


def loads_language_model(load: Call) -> bool:
    """Whether a ``from_pretrained`` loads a decoder or encoder-decoder language model."""
    return load.script.loads_language_model(load)


def trains_language_model(trainer: Trainer) -> bool:
    """Whether a trainer definitely trains a language model worth its memory."""
    return trainer.script.trains_language_model(trainer)


def is_trained(script: Script, load: Call) -> bool:
    """Whether the model that ``load`` makes definitely reaches a trainer."""
    return script.is_trained(load)


def weights_dtype(script: Script, trainer: Trainer) -> str | None:
    """In which precision a trainer's weights certainly are; else None."""
    return script.weights_dtype(trainer)
