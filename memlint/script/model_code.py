"""Whose code a model's class is: fixes that call it are safe with transformers' own alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.values import Object
from memlint.script.settings import MISSING

if TYPE_CHECKING:
    from memlint.script.calls import Call, Trainer
    from memlint.script.model import Script

_REMOTE = "trust_remote_code"
_OFF = (MISSING, None, False)


def loads_class_of_transformers(load: Call) -> bool:
    """True if what a call loads is certainly of a class that transformers has: its code comes
    neither with the checkpoint nor with the project."""
    return (
        load.name.startswith("transformers.")
        and load.subclass is None
        and not load.has_unknown_keywords
        and load.setting(_REMOTE).value in _OFF
        and not _registers_classes(load.script)
    )


def trains_class_of_transformers(trainer: Trainer) -> bool:
    """True if a trainer's model is certainly of a class that transformers has, by name too."""
    if not trainer.model.by_name:
        loads = trainer.model.loads
        return bool(loads) and all(map(loads_class_of_transformers, loads))
    if trainer.args.given is not False and trainer.config is None:
        return False
    holders = [trainer, trainer.config] if trainer.config is not None else [trainer]
    loaded = [holder.setting("model_init_kwargs").value for holder in holders]
    return (
        all(holder.setting(_REMOTE).value in _OFF for holder in holders)
        and all(_is_off_in(trainer.script, options) for options in loaded)
        and not _registers_classes(trainer.script)
    )


def _is_off_in(script: Script, options: object) -> bool:
    if isinstance(options, Object):
        return options.type == "dict" and script.item(options, _REMOTE) in _OFF
    return options in (MISSING, None)


def _registers_classes(script: Script) -> bool:
    """True if the script gives the Auto classes models of its own."""
    return any("transformers.Auto" in call.name for call in script.method_calls("register"))
