"""Weights held in float32 where half of the bytes would do.

A parameter costs 4 bytes in float32 and 2 in bfloat16: 13 GiB for 7 billion of them. A frozen base
under an adapter needs no float32 at all; a full fine-tune may want float32 master weights, which
is why the fix is unsafe there. Source: transformers documentation, "Loading models" (dtype); TRL,
``trl/trainer/utils.py`` (a model given by name is loaded in float32 since 0.27).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    TRAINING,
    UNSLOTH,
    Call,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Trainer,
    fix,
    float32_loads,
    reference_to,
    set_option,
    upcast_models,
)

_FLOAT32 = "torch.float32"
_COST = "4 bytes a parameter where bfloat16 needs 2"


def check(script: Script) -> Iterator[Finding]:
    for load in script.model_loads:
        if script.loads_language_model(load) and script.is_trained(load):
            yield from _check_load(script, load)
    for trainer in script.training:
        if _loads_by_name(script, trainer):
            yield _by_name(script, trainer)
    for model, frozen in float32_loads(script):
        if not script.is_trained(model.load):
            yield from _check_load(script, model.load, frozen)
    yield from upcast_models(script)


def _scales_losses(trainer: Trainer) -> bool:
    """Whether all weights are trained with fp16, whose scaled gradients want float32 weights."""
    config = trainer.config
    if trainer.peft or config is None:
        return False
    fp16 = config.setting("fp16")
    return fp16.given is not False and fp16.value is not False


def _check_load(script: Script, load: Call, frozen: bool = False) -> Iterator[Finding]:
    trainers = [
        one
        for one in script.training
        if one.model.load is not None and one.model.load.node is load.node
    ]
    if script.is_quantized(load) is not False or any(map(_scales_losses, trainers)):
        return
    frozen = all(trainer.peft for trainer in trainers) if trainers else frozen
    setting = script.given_dtype(load)
    if setting is None:
        if script.api.behaviour("load-dtype") == "float32" and not load.has_unknown_keywords:
            message = f"the model is loaded in float32, this version's default: {_COST}"
            made = _fix(script, load, script.dtype_option(load.name), frozen)
            yield Finding(script.span(load.node.func), message, made)
    elif setting.given and script.dtype_name(setting) == _FLOAT32:
        span = script.span(setting.node if setting.node is not None else load.node)
        message = f"`{setting.name}` is float32: {_COST}"
        yield Finding(span, message, _fix(script, load, setting.name, frozen))


def _fix(script: Script, load: Call, option: str, frozen: bool) -> Fix | None:
    reference = reference_to(script, "torch.bfloat16", load.node)
    if reference is None:
        return None
    edits = set_option(script, load, option, reference.text)
    whole = (*edits, *reference.edits) if edits is not None else None
    return fix(f"Set `{option}={reference.text}`", whole, unsafe=not frozen)


def _loads_by_name(script: Script, trainer: Trainer) -> bool:
    """Whether a TRL trainer loads its model by name, and definitely in float32."""
    if not (trainer.kind.startswith("trl.") and trainer.model.by_name) or trainer.model.is_toy:
        return False
    if _scales_losses(trainer) or script.api.signature(trainer.kind) is None:
        # A trainer that the target does not have loads nothing.
        return False
    if script.api.behaviour("string-model-dtype") != "float32":
        return False
    config = trainer.config
    if trainer.args.given is not False and (config is None or config.from_command_line):
        return False
    # The option was the trainer's in older versions.
    holders = (trainer,) if config is None else (trainer, config)
    settings = [one.setting("model_init_kwargs") for one in holders]
    return all(setting.given is False or setting.value is None for setting in settings)


def _by_name(script: Script, trainer: Trainer) -> Finding:
    given, config, option = trainer.setting("model"), trainer.config, "model_init_kwargs"
    made = None
    if config is not None and config.has_option(option):
        loaded = f'{{"{script.dtype_option()}": "bfloat16"}}'
        edits = set_option(script, config, option, loaded)
        made = fix(f"Set `{option}={loaded}`", edits, unsafe=not trainer.peft)
    return Finding(
        script.span(given.node if given.node is not None else trainer.node),
        f"`{trainer.kind.rpartition('.')[2]}` loads a model given by name in float32: {_COST}",
        made,
    )


RULE = Rule(
    code="MEM401",
    name="fp32-weights",
    level=Level.WASTE,
    summary="weights loaded in float32",
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, TRAINING),
)
