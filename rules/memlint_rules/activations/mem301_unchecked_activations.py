"""Training that keeps every layer's activations until the backward pass.

Without activation checkpointing a decoder layer keeps some 34 times hidden size bytes per token in
bf16 (attention and MLP inputs, projections, norms); with it, only the layer's input: 2 times hidden
size. The price is one more forward pass, about a third more compute. Source: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198; transformers,
"GPU" (gradient checkpointing).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    CHECKPOINTING_ARGUMENTS,
    CHECKPOINTING_OPTIONS,
    LIBRARIES,
    OFF_CUDA,
    UNSLOTH,
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Setting,
    Trainer,
    fix,
    is_switched_off,
    set_option,
    together,
    unchecked_loops,
    unless_switched_off,
)

_NON_REENTRANT = '{"use_reentrant": False}'


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        trainers = script.training_with(config)
        if (
            trainers
            and config.checkpointing is False
            and all(trainer.trains_language_model for trainer in trainers)
            and all(trainer.checkpointed_by_call is False for trainer in trainers)
            and (_is_written(config) or not _waits_for_its_class(script, config, trainers))
        ):
            yield _finding(script, config, trainers)
    yield from unchecked_loops(script)


def _is_written(config: Config) -> bool:
    return any(config.setting(name).given for name in CHECKPOINTING_OPTIONS)


def _waits_for_its_class(script: Script, config: Config, trainers: tuple[Trainer, ...]) -> bool:
    """Plain arguments for a TRL trainer: MEM905 gives them the class whose default is on."""
    if config.kind.startswith("trl."):
        return False
    kinds = [trainer.kind for trainer in trainers if trainer.kind.startswith("trl.")]
    signatures = [script.api.signature(kind.removesuffix("Trainer") + "Config") for kind in kinds]
    return any(
        name in signature.parameters and signature.parameters[name].default is True
        for signature in signatures
        if signature is not None
        for name in CHECKPOINTING_OPTIONS
    )


def _finding(script: Script, config: Config, trainers: tuple[Trainer, ...]) -> Finding:
    newest = next(filter(config.has_option, CHECKPOINTING_OPTIONS), CHECKPOINTING_OPTIONS[1])
    given = [config.setting(name) for name in CHECKPOINTING_OPTIONS]
    setting = next((one for one in given if one.given), config.setting(newest))
    message = (
        f"`{config.kind.rpartition('.')[2]}` leaves activation checkpointing off: the activations "
        "of all layers are kept until backward"
    )
    span = script.span(config.node.func)
    if setting.given:
        written = f"`{setting.name}=False` keeps"
        if setting.is_overridable_default:
            written = f"`{setting.name}` is off by its {setting.origin}, which keeps"
        message = f"{written} the activations of all layers until backward"
        span = script.span(setting.node) if setting.node is not None else config.span
    if any(trainer.model.kbit for trainer in trainers):
        message += "; the k-bit preparation does not turn it on here"
    return Finding(span, message, _fix(script, config, trainers, setting, newest))


def _fix(
    script: Script, config: Config, trainers: tuple[Trainer, ...], setting: Setting, newest: str
) -> Fix:
    edits = set_option(script, config, setting.name, "True")
    name = setting.name if edits and not is_switched_off(setting) else newest
    message = f"Set `{name}=True`"
    if any(_starves_adapters(config, trainer) for trainer in trainers):
        arguments = next(
            filter(config.has_option, CHECKPOINTING_ARGUMENTS), CHECKPOINTING_ARGUMENTS[-1]
        )
        edits = together(edits, set_option(script, config, arguments, _NON_REENTRANT))
        message += f" and `{arguments}={_NON_REENTRANT}`: no gradient passes a frozen input"
    doubted = not all(_supports_checkpointing(script, trainer) for trainer in trainers)
    if doubted:
        message += ", if the model's class supports it: its code is not transformers' own"
    return unless_switched_off(setting, fix(message, edits, unsafe=doubted))


def _supports_checkpointing(script: Script, trainer: Trainer) -> bool:
    """True if the model's class is one of transformers; others raise a ValueError by default."""
    known = trainer.model.by_name or trainer.model.loads
    return not known or not trainer.trains_own_code


def _starves_adapters(config: Config, trainer: Trainer) -> bool:
    """True if checkpointing would be reentrant, which needs an input with gradients, over a base
    that may be frozen."""
    if any(config.setting(name).given is not False for name in CHECKPOINTING_ARGUMENTS):
        return False
    return trainer.peft is not False and trainer.reentrant_by_default


RULE = Rule(
    code="MEM301",
    name="unchecked-activations",
    level=Level.WASTE,
    summary="no activation checkpointing",
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, frozenset({"TrainingArguments", "Config", "backward(", "optim"})),
)
