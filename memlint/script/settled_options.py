"""Options as a configuration leaves them: ``__post_init__`` fills in and renames some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.api.settled import OPEN
from memlint.api.signatures import Expression
from memlint.engine.values import How, Object
from memlint.script.settings import MISSING, UNSURE, Setting

if TYPE_CHECKING:
    from memlint.script.calls import Config, Trainer


# What is read only when the configuration is made: a later assignment changes nothing.
_READ_ONCE = ("bf16", "fp16", "tf32")


def at_birth(config: Config, name: str) -> Setting:
    """The setting as the configuration has it when it reads it: an attribute that is assigned
    afterwards comes too late for some."""
    setting = config.setting(name)
    late = setting.how is How.ATTRIBUTE and not config.from_command_line and not is_remade(config)
    if name not in _READ_ONCE or not late:
        return config.effective(name)
    return config.first(name)


def is_remade(config: Config) -> bool:
    """True if a trainer of TRL makes a configuration of its own class out of plain arguments."""
    trainers = config.script.trainers_with(config)
    plain = config.kind.startswith("transformers.")
    return plain and any(trainer.kind.startswith("trl.") for trainer in trainers)


def settled_options(config: Config) -> dict[str, object]:
    """The options that a configuration assigns itself, and what they are then."""

    def read(name: str) -> object:
        if not config.has_option(name):
            return None  # of older releases: nobody can have switched it on
        value = at_birth(config, name).value
        unknown = isinstance(value, Object) and value.type is None
        return OPEN if unknown or value is UNSURE or value is MISSING else value

    return config.script.api.settle(config.kind, read)


def settled_option(trainer: Trainer, option: str) -> object:
    """An option of a trainer's configuration, of the one that it makes where it gets none; UNSURE
    where that cannot be told."""
    config, api = trainer.config, trainer.script.api
    if config is not None and config.has_option(option):
        return config.settled(option).value
    kind = api.config_of(trainer.kind)
    signature = api.signature(kind) if kind is not None else None
    if kind is None or signature is None or (config is None and trainer.args.given is not False):
        return UNSURE

    def read(name: str) -> object:
        parameter = signature.parameters.get(name)
        if parameter is None:
            return None
        default = OPEN if parameter.required else parameter.default
        return OPEN if isinstance(default, Expression) else default

    value = api.settle(kind, read).get(option, read(option))
    return UNSURE if value is OPEN else value
