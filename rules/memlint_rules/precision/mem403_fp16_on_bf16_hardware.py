"""Mixed precision in fp16 where bf16 would do."""

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    fix,
    may_lack_bf16,
    triggers,
)

_MESSAGE = (
    "trains in fp16, which needs a loss scaler and skips steps that overflow; bf16 takes the same "
    "memory without it, on Ampere GPUs and newer"
)


def check(script: Script) -> Iterator[Finding]:
    if may_lack_bf16(script):
        return
    for config in script.configs:
        setting = config.setting("fp16")
        if (
            setting.value is True
            and not setting.is_overridable_default
            and script.training_with(config)
        ):
            node = setting.node if setting.node is not None else config.node.func
            yield Finding(script.span(node), _MESSAGE, _fix(script, config))
    for call in script.calls_to("accelerate.Accelerator") if script.steps else ():
        setting = call.setting("mixed_precision")
        if (
            setting.value == "fp16"
            and not setting.is_overridable_default
            and setting.node is not None
        ):
            changes = edits.set_option(script, call, "mixed_precision", '"bf16"')
            found = fix('Set `mixed_precision="bf16"`', changes, unsafe=True)
            yield Finding(script.span(setting.node), _MESSAGE, found)


def _fix(script: Script, config: Config) -> Fix:
    if config.setting("bf16").is_overridable_default or not config.has_option("bf16"):
        return advise("Set `bf16=True` instead")
    changes = edits.together(
        edits.set_option(script, config, "fp16", "False"),
        edits.set_option(script, config, "bf16", "True"),
    )
    return fix("Set `bf16=True` instead", changes, unsafe=True)


RULE = Rule(
    level=Level.HINT,
    summary="fp16 where the GPU has bf16",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"fp16"})),
    on_request=True,
    effect={"compute_dtype": "bfloat16", "autocast": True},
)
