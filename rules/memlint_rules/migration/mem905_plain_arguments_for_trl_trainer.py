"""A TRL trainer that is given plain ``TrainingArguments``."""

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    Trainer,
    is_elsewhere,
    successors,
    triggers,
)
from memlint_rules.migration.option_places import successor_of
from memlint_rules.migration.plain_arguments import config_class, own_arguments
from memlint_rules.migration.refused_models import FUSED

_CHECKPOINTING = "activation checkpointing"
_PLAIN = frozenset({"transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"})
# What TRL's configurations turn on, and the options that decide it, the first by its default.
_SAVINGS = {
    "bf16": ("bf16", "fp16"),
    _CHECKPOINTING: ("gradient_checkpointing", "activation_checkpointing"),
}


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.training:
        config = trainer.config
        if config is None or config.kind not in _PLAIN or not trainer.kind.startswith("trl."):
            continue
        wanted = config_class(script, trainer)
        if wanted is None:
            continue
        why = _why(script, trainer, config, wanted)
        if why:
            far = config.from_command_line or is_elsewhere(config.node)
            yield Finding(
                script.span(trainer.node.func if far else config.node.func),
                f"`{trainer.kind.rpartition('.')[2]}` gets plain `TrainingArguments`: {why}",
                own_arguments(script, trainer, config, wanted),
            )


def _why(script: Script, trainer: Trainer, config: Config, wanted: str) -> str:
    """What is wrong with plain arguments here; empty where every value was written."""
    name = wanted.rpartition(".")[2]
    reads = script.api.behaviour("plain-arguments") == "refused" and trainer.subclass is None
    reads = reads and script.api.is_a(trainer.kind, *FUSED, "trl.RewardTrainer")
    if reads and config.setting("model_init_kwargs").given is False:
        return f"it reads their `model_init_kwargs`, which only `{name}` has, and stops"
    cancelled = " and ".join(_cancelled(script, trainer, config, wanted, sure=True))
    if cancelled:
        return f"these turn off {cancelled}, which `{name}` has on by default"
    for setting in trainer.settings():
        if not setting.given or script.api.accepts(trainer.kind, setting.name) is not False:
            continue
        no_place = f"there is no place in them for `{setting.name}`"
        if script.api.accepts(wanted, setting.name) is not False:
            return f"{no_place}, an option of `{name}`"
        if isinstance(moved := successor_of(script, trainer, setting), successors.Move):
            return f"{no_place}, which `{name}` calls `{moved.parameter}`"
    doubtful = list(_cancelled(script, trainer, config, wanted, sure=False))
    if doubtful:
        cancelled = " and ".join(doubtful)
        them, are = ("them", "are") if len(doubtful) > 1 else ("it", "is")
        return (
            f"where nothing turns {them} on, {cancelled} {are} off, "
            f"against the defaults of `{name}`"
        )
    return ""


def _cancelled(
    script: Script, trainer: Trainer, config: Config, wanted: str, *, sure: bool
) -> Iterator[str]:
    """Savings that the trainer's own configuration has by default and that nobody decided on.

    sure: only those that nothing, as a command line, can decide on either.
    """
    signature = script.api.signature(wanted)
    assert signature is not None
    for what, names in _SAVINGS.items():
        settings = [config.setting(name) for name in names]
        by_default = signature.parameters.get(names[0])
        if by_default is None or by_default.default is False:
            continue
        if any(setting.given for setting in settings):
            continue
        if what == _CHECKPOINTING and trainer.checkpointed_by_call:
            # The configuration's option turns nothing off that a call turned on.
            continue
        if not sure or all(setting.given is False for setting in settings):
            yield what


RULE = Rule(
    level=Level.ERROR,
    summary="a TRL trainer given plain TrainingArguments",
    check=check,
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
    skips=(Skip.UNSLOTH,),  # its shim turns plain arguments into the trainer's own
)
