"""TRL's trainers whose losses keep full logits, and how the runtime spares them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import Applicability, Edit, Fix, InsertStatement, Script, Trainer

_FUSE = "memlint_runtime.losses.fuse_trl_losses"
# Options of the losses' own that kept no full logits, while there were such.
_OWN_OPTIONS = ("use_liger_kernel", "use_liger_loss")
# Trainers whose losses the runtime is tested with. DPO and KTO, before they chunked, averaged the
# logits for their metrics as well: those are still made, without a gradient.
_DEFERRABLE = frozenset({"CPOTrainer", "ORPOTrainer"})
_BUT_FOR_METRICS = frozenset({"DPOTrainer", "KTOTrainer"})
# Trainers whose loss was Liger's on demand.
_LIGER = frozenset({"DPOTrainer", "GRPOTrainer", "KTOTrainer"})


def is_kind(trainer: Trainer, *names: str) -> bool:
    """Whether it is one of TRL's trainers of these names, wherever the version keeps them."""
    return trainer.kind.startswith("trl.") and trainer.kind.rpartition(".")[2] in names


def full_logits_trainers(script: Script, topic: str, chunked: frozenset[str]) -> Iterator[Trainer]:
    """Trainers of TRL with full logits at the target.

    topic: the behaviour that tells since when the trainers named in ``chunked`` need none; all
    others that the caller looks for keep them in every version.
    """
    if script.uses_unsloth or script.off_cuda or script.avoids_logits("fuse_trl_losses"):
        return
    without = script.api.behaviour(topic) != "full logits"
    for trainer in script.training:
        name = trainer.kind.rpartition(".")[2]
        if not trainer.kind.startswith("trl.") or trainer.model.is_toy or trainer.shares_prompts:
            continue
        if name in chunked and (without or _asks_for_own(trainer)):
            continue
        yield trainer


def _asks_for_own(trainer: Trainer) -> bool:
    """Whether an option for a loss without logits is on, or may be."""
    if trainer.config is None:
        return trainer.args.given is not False
    for name in _OWN_OPTIONS:
        setting = trainer.config.setting(name)
        if setting.given is not False and setting.value is not False:
            return True
    return False


def fuse(script: Script, trainer: Trainer) -> Fix | None:
    """The runtime's loss where it is tested with the target, else the version's own option."""
    return _fuse_by_runtime(script, trainer) or _own_option(script, trainer)


def _own_option(script: Script, trainer: Trainer) -> Fix | None:
    """Advice to take Liger's loss, in versions whose trainers had it."""
    name, config = trainer.kind.rpartition(".")[2], trainer.config
    option = script.api.behaviour("liger-rl-loss")
    if name not in _LIGER or config is None or not option or not config.has_option(option):
        return None
    if config.setting(option).given is None:
        return None
    message = f"Set `{option}=True`, which computes the loss without them (needs liger-kernel)"
    return Fix(message, applicability=Applicability.DISPLAY)


def _fuse_by_runtime(script: Script, trainer: Trainer) -> Fix | None:
    """``fuse_trl_losses(trainer)`` once the trainer is made, where it has a name."""
    name = trainer.kind.rpartition(".")[2]
    if name not in _DEFERRABLE | _BUT_FOR_METRICS:
        return None
    message = "Compute the log-probabilities without the logits: `fuse_trl_losses(trainer)`"
    if name in _BUT_FOR_METRICS:
        message += ", which leaves those that the metrics average, without a gradient"
    if script.api.behaviour("deferred-logits") != "tested" or trainer.subclass is not None:
        return None
    if script.api.behaviour("runtime") != "tested":
        return None
    edits = _calling(script, trainer)
    if not edits:
        return Fix(message, applicability=Applicability.DISPLAY)
    return Fix(message, edits)


def _calling(script: Script, trainer: Trainer) -> tuple[Edit, ...]:
    statement = script.statement(trainer.node)
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
            if value is not trainer.node:
                return ()
        case _:
            return ()
    reference = script.reference(_FUSE, trainer.node)
    if reference is None:
        return ()
    call = f"{reference.text}({script.text(target)})"
    return (InsertStatement(script.span(statement), call, "after"), *reference.edits)
