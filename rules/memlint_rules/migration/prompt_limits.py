"""A limit that the configuration lost: the runtime's trainer cuts prompts as TRL's did."""

import ast

from memlint.rule import (
    UNSURE,
    Call,
    Config,
    How,
    Object,
    Script,
    Trainer,
    edits,
    is_elsewhere,
    successors,
    triggers,
)
from memlint_rules.migration.option_places import Edits, Option, assigned

_PROMPT = "max_prompt_length"
_COMPLETION = "max_completion_length"
# Trainers whose limits of prompt and completion were two; the others cut a row by one rule.
_TWO_LIMITS = "trl.DPOTrainer"
# What makes prompts, or draws them, out of sight of the tokenizing that is cut.
_OWN_PROMPTS = ("rollout_func", "environment_factory", "tools")


def kept_limit(option: Option, replacement: successors.Runtime) -> tuple[Edits, bool] | None:
    """Return edits that let the runtime keep the limit, and whether they may do otherwise."""
    script, call, gone = option.script, option.call, option.place.removed()
    if gone is None or option.says_nothing:
        return (gone, False) if gone is not None else None
    trainers: tuple[Call, ...] = (call,)
    if isinstance(call, Config):
        trainers = script.trainers_with(call)
        if not trainers and takers(script, call):
            return _for_their_trainer(option, call, gone)
    if len(trainers) != 1 or not isinstance(trainers[0], Trainer):
        return None
    limited = _limited(option, trainers[0], replacement)
    if limited is None:
        return None
    return (*gone, *limited), trainers[0].subclass is not None


def takers(script: Script, config: Call) -> tuple[Call, ...]:
    """Calls of what is neither the libraries' nor the file's that get the configuration: trainers
    of the script's own project, most likely made after TRL's, and functions that may read it."""
    return tuple(
        call
        for call in script.calls
        if "." in call.name
        and call.name.partition(".")[0] not in triggers.PACKAGES
        and any(
            isinstance(made := script.value(node), Object)
            and (found := script.config_of(made)) is not None
            and found.node is config.node
            for node in (*call.node.args, *(one.value for one in call.node.keywords))
        )
    )


def _for_their_trainer(option: Option, config: Config, gone: Edits) -> tuple[Edits, bool] | None:
    """``args.max_prompt_length = ...``: a trainer out of sight may well read it there."""
    script, setting = option.script, option.setting
    statement = script.statement(config.node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if statement.value is config.node:
            pass
        case _:
            return None
    if setting.how is not How.KEYWORD or setting.owner is not config.node:
        return None
    package = config.kind.partition(".")[0]
    line = (
        f"# No option of {package}'s own any more; a trainer that is not {package}'s may read it.\n"
        f"{name}.{setting.name} = {assigned(option.text)}"
    )
    kept = edits.InsertStatement(script.span(statement), line, "after")
    return (*gone, kept), True


def _limited(option: Option, trainer: Trainer, replacement: successors.Runtime) -> Edits | None:
    """``limit_prompts(DPOTrainer, 512)`` in the place of ``DPOTrainer``."""
    script, call = option.script, option.call
    callee = trainer.node.func
    if not isinstance(callee, ast.Name | ast.Attribute) or _draws_its_own(script, trainer):
        return None
    if trainer.is_partial or is_elsewhere(trainer.node):
        return None
    if script.api.behaviour("prompt-limits") != "tested":
        return None
    reference = edits.reference_to(script, replacement.function, trainer.node)
    text = _readable(script, option.value, trainer)
    kept = _kept_end(call, trainer)
    if reference is None or text is None or kept is None:
        return None
    if option.name == _COMPLETION:
        if trainer.kind != _TWO_LIMITS or call.setting(_PROMPT).given is not False:
            return None
        arguments = f"None, {_COMPLETION}={text}"
    else:
        arguments = f"{text}{kept}"
    source = f"{reference.text}({script.text(callee)}, {arguments})"
    return (edits.ReplaceCallee(trainer.span, source), *reference.edits)


def _kept_end(call: Call, trainer: Trainer) -> str | None:
    """Which end of a prompt stays, as an argument; None where that is not known."""
    if trainer.kind.rpartition(".")[2] not in ("KTOTrainer", "ORPOTrainer", "CPOTrainer"):
        return ""
    mode = call.setting("truncation_mode")
    if mode.given is False or mode.is_value("keep_end"):
        return ""
    return ', keep="start"' if mode.is_value("keep_start") else None


def _draws_its_own(script: Script, trainer: Trainer) -> bool:
    if script.uses_vision:
        return True
    return any(trainer.setting(name).given is not False for name in _OWN_PROMPTS)


def _readable(script: Script, value: ast.expr, trainer: Trainer) -> str | None:
    """The source of ``value`` where the trainer is made."""
    here = trainer.span.contains(script.span(value))
    if here or script.is_bound_before(value, trainer.node):
        return script.text(value)
    known = UNSURE if script.takes_parameter(value) else script.python(value)
    return repr(known) if isinstance(known, int) else None
