"""Gradient accumulation with an optimizer that steps inside backward.

An optimizer that steps in backward uses each gradient as soon as it is complete and frees it:
nothing is left for the next micro-batch to add to. With accumulation each micro-batch then makes a
step of its own, with the learning rate meant for all of them together, and the loss already divided
by their number. Gradients that each backward pass copies to the CPU are overwritten instead: a step
sees those of the last micro-batch. Sources: PyTorch tutorial, "How to save memory by fusing the
optimizer step into the backward pass"; ``memlint_runtime.OptimizerInBackward``, which refuses it;
torchao, ``CPUOffloadOptimizer``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Level,
    Object,
    Rule,
    Script,
    TrainingRun,
    advise,
    by_change,
    facts,
)

_STEPS = "gradient_accumulation_steps"
_HOOK = "register_post_accumulate_grad_hook"
_WRAPPERS = (
    "OptimizerInBackward", "_apply_optimizer_in_backward", "register_optim_in_bwd_hooks",
)  # fmt: skip
_OFFLOADS = "offload_gradients"


def check(script: Script) -> Iterator[Finding]:
    for call in script.method_calls("step_trainer_in_backward"):
        trainer = facts.trainer_of(script, call.argument(0))
        config = trainer.config if trainer is not None else None
        steps = config.effective(_STEPS).value if config is not None else None
        yield from _finding(script, call, steps)
    for config in script.configs:
        if _steps_in_backward(config.setting("optim").value):
            yield from _finding(script, config, config.effective(_STEPS).value)
    for call in script.method_calls(*_WRAPPERS, _HOOK):
        if call.method != _HOOK or facts.steps_optimizer(call.argument(0)):
            # What only divides its loss means that many backward passes for each step.
            yield from _finding(script, call, script.accumulation or script.loss_divisor)
    for call in script.method_calls("CPUOffloadOptimizer"):
        yield from _offloaded(script, call)


def _offloaded(script: Script, call: Call) -> Iterator[Finding]:
    offloads, steps = call.setting(_OFFLOADS), _micro_batches(script, call)
    if offloads.value is not True or offloads.is_overridable_default:
        return
    if type(steps) is int and steps > 1:
        node = offloads.node if offloads.node is not None else call.node.func
        yield Finding(
            script.span(node),
            f"each backward pass overwrites the gradients on the CPU: a step sees those of the "
            f"last of {steps} micro-batches",
            advise(f"Set `{_OFFLOADS}=False`, or do not accumulate"),
        )


def _micro_batches(script: Script, optimizer: Call) -> object:
    """Return how many backward passes an optimizer's step has, in a trainer or in a loop."""
    for trainer in script.trainers:
        given = trainer.setting("optimizers").value
        first = given[0] if isinstance(given, tuple | list) and given else None
        if isinstance(first, Object) and first.node is optimizer.node:
            return trainer.config.effective(_STEPS).value if trainer.config is not None else None
    return script.accumulation or script.loss_divisor


def _steps_in_backward(optimizer: object) -> bool:
    return isinstance(optimizer, str) and (
        optimizer.endswith("_layerwise") or optimizer in ("lomo", "adalomo")
    )


def _finding(script: Script, call: Call, steps: object) -> Iterator[Finding]:
    if type(steps) is int and steps > 1:
        yield Finding(
            script.span(call.node.func),
            f"the optimizer steps inside backward, but {steps} micro-batches make a step: "
            "gradients are used and gone before the next micro-batch could add to them",
            advise(
                "Use a larger micro-batch without accumulation, or an optimizer that steps after "
                "backward"
            ),
        )


def of_run(run: TrainingRun) -> Iterator[Finding]:
    steps = run.gradient_accumulation.number or 1
    if steps <= 1:
        return
    if run.offloaded_gradients.is_value(True):
        yield Finding(
            run.offloaded_gradients.span,
            "each backward pass overwrites the gradients on the CPU: a step sees those of the last "
            f"of {steps} accumulated batches",
            by_change(run.set(offloaded_gradients=False)),
        )
    if run.in_backward.is_value(True):
        yield Finding(
            run.in_backward.span,
            f"torchtune refuses `optimizer_in_bwd` with {steps} accumulated batches: each batch "
            "would step",
            by_change(run.set(in_backward=False)),
        )


RULE = Rule(
    code="MEM505",
    name="accumulated-fused-step",
    level=Level.ERROR,
    summary="gradient accumulation with an optimizer that steps inside backward",
    check=check,
    of_run=of_run,
    triggers=(
        frozenset({"in_backward", "InBackward", "in_bwd", _HOOK, "layerwise", "lomo", _OFFLOADS}),
    ),
)
