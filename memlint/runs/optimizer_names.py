"""Which optimizer a run has, as the memory model calls it: by its class, package and options.

Measured: bitsandbytes keeps float32 states whatever the weights' dtype is, torchao follows it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memlint.engine.values import Symbol
from memlint.runs.plain_options import (
    OPEN,
    Options,
    calls_anywhere,
    made_by_call,
    options_of,
    settled,
)
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.model import Script
from memlint.script.setups import trainer_overrides
from memlint.source.patterns import lazy_pattern

_PACKAGES = (
    "torch.optim.", "bitsandbytes.", "torchao.", "transformers.Ada", "galore_torch.",
    "transformers.optimization.Ada", "apollo_torch.", "lion_pytorch.", "deepspeed.ops.",
    "lomo_optim.", "schedulefree.", "adam_mini.", "prodigyopt.", "came_pytorch.", "muon.",
    "optimi.", "heavyball.", "flashoptim.", "dion.", "pytorch_optimizer.", "apex.optimizers.",
    "peft.optimizers.",
)  # fmt: skip
# Classes whose names mean something else in other packages.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "torchao": {
        **{f"AdamW{end}": f"adamw_torch_{end.lower()}" for end in ("8bit", "4bit", "Fp8")},
        "_AdamW": "adamw_torch_one_by_one",
    },
    "bitsandbytes": dict.fromkeys(("AdamW", "AdamW32bit"), "adamw_bnb_32bit"),
    "lion_pytorch": {"Lion": "lion_pytorch"},
    "peft": {"create_lorafa_optimizer": "adamw_torch_one_by_one"},
    # A compensation for the rounding of 16-bit weights comes on top of its states.
    "optimi": {"Adam": "optimi_adamw", "AdamW": "optimi_adamw", "Lion": "optimi_lion"},
}
# Of the Trainer's ``optim_args``: a momentum that is not zero.
_MOMENTUM = lazy_pattern(r"\bmomentum\s*=\s*(?!0(\.0*)?\s*(,|$))")
_OFFLOADED = "CPUOffloadOptimizer"
# A hook that may step, and wrappers that do.
STEPS_IN_BACKWARD = (
    *("register_post_accumulate_grad_hook", "OptimizerInBackward"),
    *("_apply_optimizer_in_backward", "register_optim_in_bwd_hooks"),
)
_TABLES = ("embed", "lm_head")  # what Muon leaves to another optimizer, where a script names it


def named_optimizer(path: str, options: Mapping[str, Any]) -> str:
    """Return the memory model's name of a class by its qualified name and its options."""
    package, name = path.partition(".")[0], path.rpartition(".")[2]
    if package in ("bitsandbytes", "torchao"):
        name = re.sub("Adam(?!W)", "AdamW", name)
        name = name.removesuffix("8bit") + "8bit" if options.get("optim_bits") == 8 else name
    name = _NAMES.get(package, {}).get(name, name.replace("DeepSpeedCPU", ""))
    if options.get("fused") is True:
        name += "_fused"
    elif package == "torch" and options.get("foreach") is False:
        name += "_one_by_one"
    return "sgd_momentum" if name.startswith("SGD") and options.get("momentum") else name


def optimizer_of_trainer(script: Script, trainer: Trainer, config: Config | None) -> Options:
    """Return the settings of the optimizer that a trainer is given, or makes."""
    given = trainer.setting("optimizers").value
    first = given[0] if isinstance(given, (tuple, list)) and given else None
    call = made_by_call(script, first)
    if call is not None:
        return _settings(script, [call])
    by_class = trainer.setting("optimizer_cls_and_kwargs")
    kind = by_class.value[0] if isinstance(by_class.value, (tuple, list)) else None
    if isinstance(kind, Symbol):
        return _said(named_optimizer(kind.name, {}), f"the script names {kind.name}")
    own = trainer_overrides(script, trainer, "create_optimizer")
    if first is not None or by_class.given is not False or own:
        return {"notes": {"optimizer": "it is made by the script's own code"}}
    name = _option(script, config) if config is not None else None
    if config is None or name is None:
        return {}
    more = config.setting("optim_args").value
    keeps = isinstance(more, str) and _MOMENTUM.search(more) is not None
    named = "sgd_momentum" if name == "sgd" and keeps else name
    stepped = "_in_backward" * bool(script.method_calls("step_trainer_in_backward"))
    return _said(named + stepped, f"`optim={name}`")


def _option(script: Script, config: Config) -> str | None:
    """Return what names a trainer's optimizer; None for a default that the target lacks."""
    name = settled(script, config.settled("optim"))
    is_open = name == OPEN and config.setting("optim").given is False
    return name if isinstance(name, str) and not is_open else None


def optimizer_of_loop(script: Script) -> Options:
    """Return the settings of the optimizers that a script makes for its loops."""
    made = [one for one in calls_anywhere(script, "") if _is_optimizer(one)]
    return _settings(
        script, [one for one in made if not script.is_off_by_default(one.node)] or made
    )


def _is_optimizer(call: Call) -> bool:
    """True if it makes an optimizer: a class of one of their packages, and no schedule."""
    inner = any(part in call.name for part in (".lr_scheduler.", ".swa_utils."))
    is_class = call.method.lstrip("_")[:1].isupper() or "create_lora" in call.method
    return is_class and not inner and (call.name.startswith(_PACKAGES) or "Muon" in call.method)


def _settings(script: Script, calls: Sequence[Call]) -> Options:
    """The last of these optimizers, or Muon where it has the matrices."""
    if not calls:
        return {}
    muons = [call for call in calls if "Muon" in call.method]
    call = (muons or calls)[-1]
    options = options_of(call)
    kept: Options = {}
    path = call.name
    if call.method == _OFFLOADED:
        kind = call.setting("optimizer_class").value
        path = kind.name if isinstance(kind, Symbol) else "torch.optim.AdamW"
        kept["offload"] = "optimizer"
    elif "CPU" in call.method:
        kept["offload"] = "optimizer"
    name = named_optimizer(path, options)
    if muons and (len(calls) > 1 or "Aux" in name) and script.may_use(*_TABLES):
        name = "muon_beside_adamw"
    hooked = script.method_calls(*STEPS_IN_BACKWARD)
    if hooked or (call.method == _OFFLOADED and options.get("offload_gradients") is True):
        name += "_in_backward"
    return kept | _said(name, f"the script makes {call.name}")


def _said(name: str, said: str) -> Options:
    return {"optimizer": name, "notes": {"optimizer": said}}
