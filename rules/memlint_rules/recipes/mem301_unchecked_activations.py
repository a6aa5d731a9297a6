"""Activations of all layers kept until backward.

axolotl's FSDP checkpoints by its own wrapper, Unsloth and plugins bring checkpointing of theirs.
LLaMA-Factory checkpoints unless it is told not to. Source: the schemas of the three programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Fix,
    InsertStatement,
    Recipe,
    RecipeKind,
    Script,
    TorchtuneModel,
    advise,
    fix,
    is_on,
    reference_to,
    set_key,
    trains,
)

_BY_FSDP = ("activation_checkpointing", "fsdp_activation_checkpointing")
_KEPT = "the activations of all layers are kept until backward"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    key = "enable_activation_checkpointing"
    option = recipe.option(key)
    if trains(recipe) and option.is_value(False):
        proposed = fix(f"Set `{key}: true`", set_key(recipe, key, "True"))
        yield Finding(option.span, f"`{key}` is off: {_KEPT}", proposed)


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("gradient_checkpointing")
    if option.value not in (False, None) or is_on(recipe, "activation_offloading"):
        return
    if not trains(recipe) or is_on(recipe, *(f"fsdp_config.{key}" for key in _BY_FSDP)):
        return
    if any(key.startswith("unsloth_") for key in recipe.keys):
        return
    edits = None
    others = ("fsdp", "fsdp_config", "plugins")
    if option.value is None and not any(recipe.has(key) for key in others):
        edits = set_key(recipe, "gradient_checkpointing", "True")
    proposed = fix("Set `gradient_checkpointing: true`", edits)
    yield Finding(option.span, f"activation checkpointing is off: {_KEPT}", proposed)


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    key = "disable_gradient_checkpointing"
    option = recipe.option(key)
    if trains(recipe) and option.is_value(True):
        message = f"activation checkpointing is disabled: {_KEPT}"
        yield Finding(option.span, message, advise(f"Remove `{key}`"))


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or script.may_use("checkpointing", "torch.utils.checkpoint"):
        return
    yield Finding(
        script.span(model.load.node.func),
        f"a loop trains this model without activation checkpointing: {_KEPT}",
        _checkpoint(script, model),
    )


def _checkpoint(script: Script, model: TorchtuneModel) -> Fix:
    """Beside the optimizer, where torchtune's recipes do it: adapters are in place by then."""
    message = (
        "Call `set_activation_checkpointing(model, "
        "auto_wrap_policy={TransformerSelfAttentionLayer})` before the optimizer is made"
    )
    name, optimizer = model.name, model.optimizer
    if name is None or optimizer is None or model.load.conditional or script.may_use("compile"):
        return advise(message)
    made = script.statement(optimizer.node)
    beside = script.flow.block(made)
    # Under ``with set_default_dtype(...)``, often.
    load = [one for one in script.ancestors(model.load.node) if one in beside[: beside.index(made)]]
    if not load:
        return advise(message)
    enable = reference_to(script, "torchtune.training.set_activation_checkpointing", made)
    layer = reference_to(script, "torchtune.modules.TransformerSelfAttentionLayer", made)
    if enable is None or layer is None:
        return advise(message)
    written = f"{enable.text}({name}, auto_wrap_policy={{{layer.text}}})"
    call = InsertStatement(script.span(made), written, "before")
    return fix(message, (call, *enable.edits, *layer.edits))


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
IN_PYTHON = _in_python
