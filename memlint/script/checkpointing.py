"""Activation checkpointing: what a configuration says, and what calls turn on beside it.

Source: ``prepare_model_for_kbit_training`` of ``peft/utils/other.py``: it turns checkpointing on
for quantized weights alone, and only where ``use_gradient_checkpointing`` is left on.
"""

from memlint.script.call_settings import MISSING, Setting
from memlint.script.called import Call, Called
from memlint.script.guesses import may_use
from memlint.script.loaded_models import ModelFacts, is_about, model_facts

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


def switched_on(config: Call) -> bool | None:
    """True if a configuration turns checkpointing on at the target; None where it is unknown."""
    given = [config.setting(name) for name in SWITCHES]
    # One name alone turns it on, unless what is not known of the other takes it back.
    on = any(setting.value is True for setting in given)
    if on or any(setting.given is None for setting in given):
        return on or None
    written = [setting for setting in given if setting.given] or [
        config.effective(name) for name in SWITCHES if config.has_option(name)
    ]
    return _is_on(written)


def _is_on(written: list[Setting]) -> bool | None:
    if any(setting.value is True for setting in written):
        return True
    # Where both names exist each is None by default, which means off.
    off = all(setting.value is False or setting.is_none for setting in written)
    return False if off and written else None


def runs_hooks_twice(script: Called) -> str:
    """What has to be said where hooks of the forward pass may run when it is computed again."""
    hooked = may_use(script, "register_forward", "register_module_forward")
    return ", where its forward hooks may run twice" if hooked else ""


def is_reentrant_by_default(script: Called, trainer: Call) -> bool:
    """True if a trainer's checkpointing is reentrant at the target unless an option says else."""
    own = trainer.name.startswith("trl.") and script.api.behaviour("trl-checkpointing")
    return own != "non-reentrant" and script.api.behaviour("checkpointing") == "reentrant"


def is_checkpointed_by_call(script: Called, model: ModelFacts, config: Call | None) -> bool | None:
    """True if a call turns checkpointing on, or may; None for a model from elsewhere."""
    if script.launcher.checkpoints is not False:
        return script.launcher.checkpoints
    enablers = script.method_calls_anywhere(*ENABLERS)
    if any(is_about(script, call, model) is not False for call in enablers):
        return True
    if script.method_calls_anywhere(*WRAPPERS) or recomputes_by_torch(script):
        return True
    if config is not None and is_checkpointed_by_fsdp(script, config) is not False:
        return None
    if model.kbit is False:
        return False
    prepared = script.calls_anywhere(*PREPARATIONS)
    if model.kbit is None and not prepared:
        return None
    return not prepared or any(turns_on(script, call) is not False for call in prepared)


def recomputes_by_torch(script: Called) -> bool:
    """True if the script recomputes activations by torch's own means: a budget for what a compiled
    graph keeps, wrappers of modules, or ``checkpoint`` around functions."""
    return any(full.startswith(_HOMES) for _, _, full in script.imports) or may_use(
        script, *_BY_TORCH, *WRAPPERS
    )


def is_checkpointed_by_fsdp(script: Called, config: Call) -> bool | None:
    """True if a configuration has FSDP checkpoint the layers that it shards; None where it may."""
    options = config.setting("fsdp_config").value
    values = [script.item(options, f"{of}activation_checkpointing") for of in ("", "fsdp_")]
    if all(value in (MISSING, None, False) for value in values):
        return False
    sharded = config.setting("fsdp")
    return (sharded.known and bool(sharded.value) and True in values) or None


def turns_on(script: Called, preparation: Call) -> bool | None:
    """True if a k-bit preparation turns checkpointing on; None where nobody can tell."""
    wanted = preparation.effective("use_gradient_checkpointing")
    if wanted.value is False:
        return False
    model = preparation.setting("model")
    prepared = model.raw if model.given else preparation.argument(0)
    quantized = model_facts(script, prepared).quantized
    if quantized is False:
        return False
    return True if quantized and wanted.value is True else None
