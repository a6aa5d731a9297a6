"""Whether a configuration turns activation checkpointing on, and of which kind."""

from __future__ import annotations

from memlint.rule import Config, Script, Trainer

# The option and its new name: where both are given the new one wins.
SWITCHES = ("activation_checkpointing", "gradient_checkpointing")
ARGUMENTS = ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")
ENABLERS = ("activation_checkpointing_enable", "gradient_checkpointing_enable")


def is_on(config: Config) -> bool | None:
    """Whether it turns checkpointing on at the target; None where nobody can tell."""
    given = [config.setting(name) for name in SWITCHES]
    if any(setting.given is None for setting in given):
        return None
    written = [setting for setting in given if setting.given] or [
        config.effective(name) for name in SWITCHES if config.has_option(name)
    ]
    if any(setting.value is True for setting in written):
        return True
    off = all(setting.value is False or setting.is_none for setting in written)
    return False if off and written else None


def trainer_turns_on(trainer: Trainer) -> bool | None:
    """Whether a trainer turns checkpointing on when it trains; None where nobody can tell."""
    if trainer.config is not None:
        return is_on(trainer.config)
    # Without arguments it makes its own, whose default the class at hand does not show.
    return None


def is_reentrant_by_default(script: Script, trainer: Trainer) -> bool:
    """Whether a trainer's checkpointing is reentrant at the target unless told otherwise."""
    own = trainer.kind.startswith("trl.") and script.api.behaviour("trl-checkpointing")
    if own == "non-reentrant":
        return False
    return script.api.behaviour("checkpointing") == "reentrant"
