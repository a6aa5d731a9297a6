"""Training that computes in float32 where mixed precision would halve its activations.

With neither ``bf16`` nor ``fp16`` the trainer runs forward and backward in the weights' dtype. With
float32 weights every activation costs 4 bytes instead of 2, and matrix products run at a fraction
of the tensor cores' rate. Source: Micikevicius et al., "Mixed Precision Training",
arXiv:1710.03740; transformers documentation, "GPU" (mixed precision).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    TRAINING,
    UNSLOTH,
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    advise,
    fix,
    full_precision_loops,
    may_lack_bf16,
    set_option,
)

_OPTIONS = ("bf16", "fp16")


def check(script: Script) -> Iterator[Finding]:
    # ``accelerate launch`` may turn mixed precision on.
    launched = script.launcher.mixed_precision not in ("", "no")
    for config in () if launched else script.configs:
        trainers = script.training_with(config)
        if (
            not trainers
            or any(trainer.model.is_toy for trainer in trainers)
            or not _neither(config)
        ):
            continue
        if all(script.loads_float32(trainer) for trainer in trainers):
            yield _finding(script, config)
    yield from full_precision_loops(script)


def _neither(config: Config) -> bool:
    """True if both options are definitely off. TRL's ``bf16=None`` means on."""
    return all(
        config.setting(name).given is not None and config.settled(name).value in (False, None)
        for name in _OPTIONS
    )


def _finding(script: Script, config: Config) -> Finding:
    given = [config.setting(name) for name in _OPTIONS if config.setting(name).given]
    node = next((one.node for one in given if one.node is not None), None)
    outside = next((one for one in given if one.is_overridable_default), None)
    return Finding(
        script.span(node if node is not None else config.node.func),
        "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where 2 "
        "would do" + (f" ({outside.origin})" if outside else ""),
        _fix(script, config),
    )


def _fix(script: Script, config: Config) -> Fix:
    for name in _OPTIONS:
        if config.setting(name).value is True:
            # Assigned when it is too late.
            return advise(f"Give `{name}=True` to the configuration where it is made")
    if config.setting("fp16").is_overridable_default:
        # Both at once are refused, and the command line may give the other.
        return advise("Set `bf16=True`, unless fp16 is selected")
    option = "fp16" if may_lack_bf16(script) else "bf16"
    return fix(f"Set `{option}=True`", set_option(script, config, option, "True"), unsafe=True)


RULE = Rule(
    code="MEM402",
    name="full-precision-training",
    level=Level.WASTE,
    summary="neither bf16 nor fp16",
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, TRAINING),
)
