"""Activation checkpointing: what a configuration says, and what calls turn on beside it.

Source: ``prepare_model_for_kbit_training`` of ``peft/utils/other.py``: it turns checkpointing on
for quantized weights alone, and only where ``use_gradient_checkpointing`` is left on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.values import Object, Value
from memlint.script.settings import MISSING

if TYPE_CHECKING:
    from memlint.script.calls import Call, Config, Trainer
    from memlint.script.model import Script

# The option and its new name: where both are given the new one wins.
SWITCHES = ("activation_checkpointing", "gradient_checkpointing")
ARGUMENTS = ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")
# Methods of models of transformers.
METHODS = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
DISABLERS = ("gradient_checkpointing_disable", "activation_checkpointing_disable")
ENABLERS = (*METHODS, "enable_gradient_checkpointing")
WRAPPERS = ("apply_activation_checkpointing", "checkpoint_wrapper", "checkpoint_activations")
_HOMES = (
    *("torch.utils.checkpoint", "torch.distributed.algorithms._checkpoint"),
    *("torch.distributed._composable.checkpoint", "fairscale.nn.checkpoint"),
)
_BY_TORCH = ("activation_memory_budget", "checkpoint_sequential", "CheckpointImpl")
KBIT_PREPARATION = "peft.prepare_model_for_kbit_training"
PREPARATIONS = (KBIT_PREPARATION, "peft.prepare_model_for_int8_training")


def switched_on(config: Config) -> bool | None:
    """True if a configuration turns checkpointing on at the target; None where it is unknown."""
    given = [config.setting(name) for name in SWITCHES]
    if any(setting.given is None for setting in given):
        return None
    written = [setting for setting in given if setting.given] or [
        config.effective(name) for name in SWITCHES if config.has_option(name)
    ]
    if any(setting.value is True for setting in written):
        return True
    # Where both names exist each is None by default, which means off.
    off = all(setting.value is False or setting.is_none for setting in written)
    return False if off and written else None


def is_reentrant_by_default(script: Script, trainer: Trainer) -> bool:
    """True if a trainer's checkpointing is reentrant at the target unless an option says else."""
    own = trainer.kind.startswith("trl.") and script.api.behaviour("trl-checkpointing")
    if own == "non-reentrant":
        return False
    return script.api.behaviour("checkpointing") == "reentrant"


def is_checkpointed_by_call(script: Script, trainer: Trainer) -> bool | None:
    """True if a call of the script turns checkpointing on, or may; None for a model from elsewhere,
    of which nobody can tell."""
    if script.launcher.checkpoints is not False:
        return script.launcher.checkpoints
    enablers = script.method_calls(*ENABLERS)
    if any(script.is_about(call, trainer.model) is not False for call in enablers):
        return True
    if script.method_calls(*WRAPPERS) or recomputes_by_torch(script):
        return True
    if trainer.config is not None and _is_sharded_with_it(script, trainer.config):
        return None
    if trainer.model.kbit is False:
        return False
    prepared = script.calls_to(*PREPARATIONS)
    if trainer.model.kbit is None and not prepared:
        return None
    return not prepared or any(turns_on(script, call) is not False for call in prepared)


def recomputes_by_torch(script: Script) -> bool:
    """True if the script recomputes activations by torch's own means: a budget for what a compiled
    graph keeps, wrappers of modules, or ``checkpoint`` around functions."""
    return any(full.startswith(_HOMES) for _, _, full in script.imports) or script.may_use(
        *_BY_TORCH, *WRAPPERS
    )


def _is_sharded_with_it(script: Script, config: Config) -> bool:
    """True if FSDP checkpoints the layers that it shards, or may."""
    options = config.setting("fsdp_config")
    if options.given is False or options.is_none:
        return False
    if isinstance(options.value, Object) and options.value.type == "dict":
        names = ("activation_checkpointing", "fsdp_activation_checkpointing")
        values = [script.item(options.value, name) for name in names]
        return any(value not in (MISSING, None, False) for value in values)
    return True


def turns_on(script: Script, preparation: Call) -> bool | None:
    """True if a k-bit preparation turns checkpointing on; None where nobody can tell."""
    wanted = preparation.effective("use_gradient_checkpointing")
    if wanted.value is False:
        return False
    quantized = script.model_facts(_prepared(preparation)).quantized
    if quantized is False:
        return False
    return True if quantized and wanted.value is True else None


def _prepared(preparation: Call) -> Value:
    setting = preparation.setting("model")
    return setting.raw if setting.given else preparation.argument(0)


def deciding_call(script: Script) -> Call | None:
    """The last call that turns checkpointing on, where the script trains and no trainer does so."""
    if script.trainers:
        configs = [trainer.config for trainer in script.trainers]
        if any(config is None or switched_on(config) is not False for config in configs):
            return None
    elif not script.steps and not script.imports_package("lightning", "pytorch_lightning"):
        return None
    methods = [one for one in script.method_calls(*METHODS) if _is_of_library(script, one)]
    calls = [*script.calls_to(KBIT_PREPARATION), *methods]
    last = max(calls, key=lambda call: call.order, default=None)
    if last is None or last.name != KBIT_PREPARATION:
        return last
    return last if turns_on(script, last) is not False else None


def _is_of_library(script: Script, call: Call) -> bool:
    """True if a method may be that of transformers: not of a class that the script defines."""
    if isinstance(call.receiver, Object):
        return call.receiver.cls is None
    own = (call.method, f"self.{call.method}", f"super().{call.method}")
    return script.text(call.node.func) not in own
