"""Plain ``TrainingArguments`` become the configuration class of the trainer that gets them."""

from collections.abc import Iterator

from memlint.rule import Config, Fix, How, Object, Script, Trainer, advise, edits, fix, is_elsewhere
from memlint_rules.migration.relocation import needs_own_arguments

# Where the two classes' defaults differ, these keep what the script trained with. Checkpointing and
# how often something is logged are left to TRL's defaults: they change no number.
_KEPT = ("learning_rate", "bf16", "max_length")
_CHECKPOINTING = "gradient_checkpointing"


def config_class(script: Script, trainer: Trainer) -> str | None:
    """The configuration class of a TRL trainer, if the target version has it."""
    wanted = trainer.kind.removesuffix("Trainer") + "Config"
    return wanted if script.api.signature(wanted) is not None else None


def own_arguments(script: Script, trainer: Trainer, config: Config, wanted: str) -> Fix:
    """The trainer's own configuration class in place of plain arguments; advice where others share
    them, or where their making is out of sight."""
    name = wanted.rpartition(".")[2]
    advice = advise(f"Use `{name}` instead of `TrainingArguments`")
    if config.from_command_line or config.subclass is not None or config.has_unknown_keywords:
        return advice
    if config.is_partial or is_elsewhere(config.node):
        return advice
    if any(one.kind != trainer.kind for one in script.trainers_with(config)):
        return advice
    if needs_own_arguments(script, config) or _is_extended(script, config):
        # Plain arguments become an object of each trainer's own; others would be one for all.
        return advice
    reference = edits.reference_to(script, wanted, config.node)
    if reference is None:
        return advice
    kept = tuple(
        # What a dictionary brings in is known, and this is not among it.
        edits.SetKeyword(config.span, option, source, beside_unpacking=True)
        for option, source in _values_to_keep(script, config, wanted)
    )
    return fix(
        f"Use `{name}`, with what `TrainingArguments` meant by default written out",
        (edits.ReplaceCallee(config.span, reference.text), *kept, *reference.edits),
        effect=_turned_on(script, config, wanted),
    )


def _turned_on(script: Script, config: Config, wanted: str) -> dict[str, object]:
    """What the class's own default turns on where nobody decided."""
    signature = script.api.signature(wanted)
    parameter = signature.parameters.get(_CHECKPOINTING) if signature is not None else None
    if parameter is None or parameter.default is not True or config.setting(_CHECKPOINTING).given:
        return {}
    return {"checkpointing": "full"}


def _is_extended(script: Script, config: Config) -> bool:
    """True if ``extend_arguments`` makes another trainer's arguments of the same object."""
    made = [call.argument(0) for call in script.calls_to("memlint_runtime.extend_arguments")]
    return any(isinstance(one, Object) and script.config_of(one) is config for one in made)


def _values_to_keep(script: Script, config: Config, wanted: str) -> Iterator[tuple[str, str]]:
    """Options that nobody wrote and that would change with the class, with their old value."""
    signature = script.api.signature(wanted)
    assert signature is not None
    positional = {
        setting.name
        for setting in map(config.setting, config.positions)
        if setting.how is How.POSITIONAL
    }
    for option in _KEPT:
        new = signature.parameters.get(option)
        setting = config.setting(option)
        if new is None or setting.given is not False or option in positional:
            continue
        old = config.effective(option)
        if not old.known or old.value == new.default:
            continue
        if option == "bf16" and config.setting("fp16").value is True:
            # TRL's bf16 default gives way to fp16, and to nothing else: not to a written False.
            continue
        yield option, repr(old.value)
