"""Liger's cross entropy, which writes over its logits, while activation offloading copies them."""

import ast
from collections.abc import Iterator

from memlint.rule import Call, Config, Finding, Level, Object, Rule, Script, edits, fix

_OFFLOADERS = (
    "offload_activations",
    "offload_trainer_activations",
    "get_act_offloading_ctx_manager",
    "OffloadActivations",
    "save_on_cpu",
)
_OPTION = "activation_offloading"
_LIGER = "use_liger_kernel"
_MESSAGE = (
    "Liger's cross entropy writes over tensors while activation offloading copies them: "
    "training can run on overwritten values"
)
_INSTEAD = "`memlint_runtime.fuse_causal_lm_loss(model)` keeps no logits either, and agrees with it"


def check(script: Script) -> Iterator[Finding]:
    by_call = bool(script.method_calls(*_OFFLOADERS))
    by_config = [
        config
        for config in script.configs
        if config.has_option(_OPTION) and config.setting(_OPTION).value is True
    ]
    offloading = by_call or bool(by_config)
    if not offloading:
        return
    for config in script.configs:
        if script.may_train_with(config) and (by_call or config in by_config):
            yield from _in_config(script, config)
    for call in script.calls:
        if _patches(call) and call.setting("cross_entropy").value is True:
            changes = edits.set_option(script, call, "cross_entropy", "False")
            yield _finding(script, call, "cross_entropy=False", changes)


def _patches(call: Call) -> bool:
    """True if it puts Liger's kernels into models."""
    return call.name.startswith("liger_kernel.") and (
        call.method.startswith("apply_liger_kernel_to_") or "AutoLigerKernel" in call.name
    )


def _in_config(script: Script, config: Config) -> Iterator[Finding]:
    if not config.has_option(_LIGER) or config.setting(_LIGER).value is not True:
        return
    kernels = config.setting("liger_kernel_config")
    if kernels.given is not False and kernels.value is not None:
        mapping = kernels.value
        if not isinstance(mapping, Object) or mapping.type != "dict":
            return
        if script.item(mapping, "cross_entropy") is True:
            node = mapping.node
            switch: tuple[edits.Edit, ...] | None = None
            if isinstance(node, ast.Dict):
                switch = (edits.SetItem(script.span(node), "cross_entropy", "False"),)
            yield _finding(script, config, "cross_entropy=False", switch)
            return
        if script.item(mapping, "fused_linear_cross_entropy") is False:
            return
    # Without a word, Liger's losses are in the models; newer trainers of TRL leave them out.
    if config.kind == "trl.SFTConfig" and script.api.behaviour("sft-loss") == "full logits":
        changes = edits.set_option(script, config, _LIGER, "False")
        yield _finding(script, config, "use_liger_kernel=False", changes)


def _finding(
    script: Script, call: Call, setting: str, changes: tuple[edits.Edit, ...] | None
) -> Finding:
    made = fix(f"Set `{setting}`; {_INSTEAD}", changes)
    return Finding(script.span(call.node.func), _MESSAGE, made)


RULE = Rule(
    level=Level.ERROR,
    summary="Liger's in-place cross entropy with activation offloading",
    check=check,
    triggers=(frozenset({"liger"}), frozenset({"offload", "save_on_cpu"})),
)
