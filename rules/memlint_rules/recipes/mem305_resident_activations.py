"""Inputs of checkpointed layers that stay on the GPU.

Source: torchtune documentation, "Memory Optimization Overview"; its recipes, which refuse
offloading for models with a vision tower.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    RecipeKind,
    ReplaceExpression,
    Script,
    advise,
    fix,
    is_on,
    set_key,
    takes_images,
    trains,
)

_OFFLOADING = "enable_activation_offloading"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option(_OFFLOADING)
    if not trains(recipe) or takes_images(recipe) or not option.is_value(False):
        return
    if is_on(recipe, "enable_activation_checkpointing"):
        yield Finding(
            option.span,
            "the inputs of checkpointed layers stay on the GPU until backward",
            fix(
                f"Set `{_OFFLOADING}: true`: they wait in pinned memory",
                set_key(recipe, _OFFLOADING, "True"),
            ),
        )


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or script.may_use("OffloadActivations", "save_on_cpu", "saved_tensors_hooks"):
        return
    held = "the inputs of checkpointed layers stay on the GPU until backward"
    for call in script.calls_to("torchtune.training.get_act_offloading_ctx_manager"):
        given = call.keyword_node(_OFFLOADING)
        node = given.value if given is not None else next(iter(call.node.args[1:]), None)
        if node is not None and script.text(node) == "False":
            edit = ReplaceExpression(script.span(node), "True")
            yield Finding(script.span(node), held, fix(f"Set `{_OFFLOADING}=True`", (edit,)))
    if script.may_use("get_act_offloading_ctx_manager"):
        return
    for call in script.calls_to("torchtune.training.set_activation_checkpointing"):
        advice = "Run the forward pass under `torchtune.training.OffloadActivations()`"
        yield Finding(script.span(call.node.func), held, advise(advice), Level.HINT)


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
