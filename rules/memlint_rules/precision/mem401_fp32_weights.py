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
    Setting,
    Trainer,
    advise,
    dtype_node,
    fix,
    float32_loads,
    is_decided,
    load_by_name_in,
    load_in,
    may_lack_bf16,
    trains_without_bf16,
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
    """True if all weights are trained with fp16, whose scaled gradients want float32 weights."""
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
    frozen = all(trainer.peft for trainer in trainers) if trainers else frozen
    # Without bf16 the losses are scaled, which wants float32 weights.
    scaled = any(map(_scales_losses, trainers)) or (not frozen and may_lack_bf16(script))
    if not scaled and script.is_quantized(load) is False:
        yield from _loaded(script, load, frozen)


def _loaded(script: Script, load: Call, frozen: bool) -> Iterator[Finding]:
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
    lacking = trains_without_bf16(script)
    if lacking and not frozen:
        return advise(f"Set `{option}=torch.bfloat16`, on a GPU that has it")
    dtype = "torch.float16" if lacking else "torch.bfloat16"
    message = f"Set `{option}={dtype}`, for what it is compared with too"
    if len(script.model_loads) == 1:
        message = f"Set `{option}={dtype}`"
    unsafe = lacking or not frozen or is_decided(script, load)
    return fix(message, load_in(script, load, dtype), unsafe=unsafe)


def _loads_by_name(script: Script, trainer: Trainer) -> bool:
    """True if a TRL trainer loads its model by name, and definitely in float32."""
    if not (trainer.kind.startswith("trl.") and trainer.model.by_name) or trainer.model.is_toy:
        return False
    if not trainer.peft and may_lack_bf16(script):
        return False
    if _scales_losses(trainer) or script.api.signature(trainer.kind) is None:
        # A trainer that the target does not have loads nothing.
        return False
    config = trainer.config
    if trainer.args.given is not False and (config is None or config.from_command_line):
        return False
    return script.weights_dtype(trainer) == _FLOAT32


def _by_name(script: Script, trainer: Trainer) -> Finding:
    given, options = trainer.setting("model"), trainer.loading_options
    node = dtype_node(script, options) or given.node
    return Finding(
        script.span(node if node is not None else trainer.node),
        f"`{trainer.kind.rpartition('.')[2]}` loads a model given by name in float32: {_COST}",
        _fix_by_name(script, trainer, options),
    )


def _fix_by_name(script: Script, trainer: Trainer, options: Setting) -> Fix | None:
    config = trainer.config
    if config is None or not config.has_option(options.name):
        return None
    lacking = trains_without_bf16(script)
    if lacking and not trainer.peft:
        return advise("Load it in bfloat16, on a GPU that has it")
    dtype = "float16" if lacking else "bfloat16"
    decided = dtype_node(script, options) is not None
    edits = load_by_name_in(script, trainer, dtype)
    unsafe = lacking or decided or not trainer.peft
    loaded = f'{{"{script.dtype_option()}": "{dtype}"}}'
    return fix(f"Set `{options.name}={loaded}`", edits, unsafe=unsafe)


RULE = Rule(
    code="MEM401",
    name="fp32-weights",
    level=Level.WASTE,
    summary="weights loaded in float32",
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, TRAINING),
)
