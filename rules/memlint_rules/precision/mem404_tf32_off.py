"""Float32 matrix products at full precision."""

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    edits,
    fix,
    triggers,
    unless_switched_off,
)

# What turns it on, or off, for the whole program.
_SWITCHES = ("allow_tf32", "set_float32_matmul_precision", "fp32_precision", "NVIDIA_TF32_OVERRIDE")


def check(script: Script) -> Iterator[Finding]:
    if script.may_use(*_SWITCHES):
        return
    for config in script.configs:
        trainers = script.training_with(config)
        if not trainers or not config.has_option("tf32") or not _computes_float32(config):
            continue
        if all(script.loads_float32(trainer) for trainer in trainers):
            yield Finding(
                script.span(config.node.func),
                "matrix products in float32 with TF32 off: the tensor cores of Ampere GPUs and "
                "newer stand idle",
                unless_switched_off(
                    config.setting("tf32"),
                    fix(
                        "Set `tf32=True`",
                        edits.set_option(script, config, "tf32", "True"),
                        unsafe=True,
                    ),
                ),
            )


def _computes_float32(config: Config) -> bool:
    """True if it definitely trains in float32, and does not turn TF32 on."""
    tf32 = config.setting("tf32")
    if tf32.given is not False and tf32.value is not False:
        return False
    return all(
        config.setting(name).given is not None and config.effective(name).value is False
        for name in ("bf16", "fp16")
    )


RULE = Rule(
    level=Level.HINT,
    summary="float32 matrix products with TF32 off",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
    on_request=True,
)
