"""Weights that ZeRO-3 has sharded, gathered whole on every GPU to generate."""

import re
from collections.abc import Iterator

from memlint.rule import Config, Finding, Rule, Script, Setting, Skip, edits, fix, triggers

_OPTION = "ds3_gather_for_generation"
# How people call such a file: ``ds_zero3.json``, ``configs/z3-offload.json``.
_STAGE_3_FILE = r"(?i)(?<![a-z])(zero|z|stage|ds)[ _-]?(stage)?[ _-]?3(?!\.?\d)"


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        if not config.has_option(_OPTION):
            continue
        gather = config.effective(_OPTION)
        if not config.has_option(_OPTION) or not script.may_train_with(config):
            continue
        if gather.value is not True:
            continue
        # vLLM takes its weights from the gathered ones: there the option must stay on.
        if config.has_option("use_vllm") and config.effective("use_vllm").value is not False:
            continue
        if (
            script.launcher.sharding == "zero3"
            or _shards_weights(script, config.setting("deepspeed"))
            or _plugin_shards(script)
        ):
            yield _finding(script, config, gather)


def _shards_weights(script: Script, deepspeed: Setting) -> bool:
    """True if a ``deepspeed=`` setting definitely is ZeRO-3: a dict of that stage, or a file that
    says so or, where there is none, is called so."""
    if isinstance(deepspeed.value, str):
        match script.settings_file(deepspeed.value):
            case {"zero_optimization": {"stage": stage}}:
                return type(stage) is int and stage == 3
            case None:
                return re.search(_STAGE_3_FILE, deepspeed.value) is not None
        return False
    stage = script.item(script.item(deepspeed.value, "zero_optimization"), "stage")
    return type(stage) is int and stage == 3


def _plugin_shards(script: Script) -> bool:
    """True if the script configures accelerate's own DeepSpeed plugin for ZeRO-3."""
    return any(
        plugin.setting("zero_stage").is_value(3)
        for plugin in script.method_calls("DeepSpeedPlugin")
    )


def _finding(script: Script, config: Config, gather: Setting) -> Finding:
    name = config.kind.rpartition(".")[2]
    where = f"`{_OPTION}=True`" if gather.given else f"`{name}` leaves `{_OPTION}` on, which"
    node = gather.node if gather.given else None
    changes = edits.set_option(script, config, _OPTION, "False")
    return Finding(
        script.span(node) if node is not None else script.span(config.node.func),
        f"{where} gathers the weights that ZeRO-3 has sharded, whole on every GPU, before each "
        "generation",
        fix(f"Set `{_OPTION}=False`: generation gathers layer by layer and is slower", changes),
    )


RULE = Rule(
    summary="ZeRO-3 weights gathered whole on every GPU to generate",
    check=check,
    skips=(Skip.OFF_CUDA,),
    triggers=(triggers.LIBRARIES, frozenset({"deepspeed", "DeepSpeedPlugin", "Config"})),
)
