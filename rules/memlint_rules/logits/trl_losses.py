"""How full logits of TRL's losses are avoided: by the runtime, or by an option of the release."""

import ast

from memlint.rule import Fix, Script, Trainer, advise, edits, fix, fix_of_model

_FUSE = "memlint_runtime.losses.fuse_trl_losses"
# Trainers whose losses the runtime is tested with. DPO and KTO, before they chunked, averaged the
# logits for their metrics as well: those are still made, without a gradient.
_DEFERRABLE = ("CPOTrainer", "ORPOTrainer")
_BUT_FOR_METRICS = ("DPOTrainer", "KTOTrainer")
# Trainers whose loss was Liger's on demand.
_LIGER = ("DPOTrainer", "GRPOTrainer", "KTOTrainer")


def fuse_trl_loss(script: Script, trainer: Trainer) -> Fix | None:
    """The runtime's loss where it is tested with the target, else the version's own option."""
    return (
        _by_runtime(script, trainer) or _by_option(script, trainer) or _by_upgrade(script, trainer)
    )


def _by_upgrade(script: Script, trainer: Trainer) -> Fix | None:
    """Advice for releases with neither, by what later ones have."""
    if trainer.is_kind(*_LIGER, "RLOOTrainer"):
        option = trainer.is_kind(*_LIGER) and script.api.behaviour("liger-rl-loss")
        by_liger = f"take `{option}=True` (needs liger-kernel), and then " if option else ""
        return advise(f"Upgrade TRL: later releases {by_liger}compute this loss in chunks")
    if trainer.is_kind(*_DEFERRABLE):
        return advise(
            "Upgrade TRL and transformers, and call `fuse_trl_losses(trainer)` of memlint_runtime"
        )
    return None


def _by_option(script: Script, trainer: Trainer) -> Fix | None:
    """Liger's loss, in versions whose trainers had it: a package more, with metrics of its own."""
    config = trainer.config
    option = script.api.behaviour("liger-rl-loss")
    if not trainer.is_kind(*_LIGER) or not option:
        return None
    message = (
        f"Set `{option}=True` (pip install liger-kernel), which computes the loss without them"
    )
    if config is None:
        changes = edits.configure(script, trainer, option, "True")
        return fix(message, changes, unsafe=True) if changes else None
    given = config.setting(option)
    if not config.has_option(option) or given.given is None:
        return None
    chosen = given.given and not given.is_overridable_default
    changes = None if chosen else edits.set_option(script, config, option, "True")
    return fix(message, changes, unsafe=True)


def _by_runtime(script: Script, trainer: Trainer) -> Fix | None:
    """``fuse_trl_losses(trainer)`` once the trainer is made, where it has a name."""
    if not trainer.is_kind(*_DEFERRABLE, *_BUT_FOR_METRICS) or trainer.subclass is not None:
        return None
    if script.api.behaviour("deferred-logits") != "tested":
        return None
    if script.api.behaviour("runtime") != "tested":
        return None
    message = "Compute the log-probabilities without the logits: `fuse_trl_losses(trainer)`"
    if trainer.is_kind(*_BUT_FOR_METRICS):
        message += ", which leaves those that the metrics average, without a gradient"
    return fix_of_model(trainer, message, _call(script, trainer))


def _call(script: Script, trainer: Trainer) -> tuple[edits.Edit, ...] | None:
    match script.statement(trainer.node):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value) as statement:
            if value is trainer.node:
                return edits.call_beside(script, _FUSE, script.text(target), statement, "after")
    return None
