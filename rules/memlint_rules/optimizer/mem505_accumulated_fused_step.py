"""Gradient accumulation with an optimizer that steps inside backward."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, TrainingRun, by_change


def check(run: TrainingRun) -> Iterator[Finding]:
    steps = run.gradient_accumulation.number or 1
    if steps <= 1:
        return
    if run.offloaded_gradients.is_value(True):
        yield Finding(
            run.offloaded_gradients.span,
            "each backward pass overwrites the gradients on the CPU: a step sees those of the last "
            f"of {steps} micro-batches",
            by_change(run.set(offloaded_gradients=False)),
        )
    if run.in_backward.is_value(True):
        yield Finding(
            run.in_backward.span,
            f"the optimizer steps inside backward, but {steps} micro-batches make a step: "
            "gradients are used and gone before the next micro-batch could add to them",
            by_change(run.set(in_backward=False)),
        )


RULE = Rule(
    level=Level.ERROR,
    summary="gradient accumulation with an optimizer that steps inside backward",
    of_run=check,
    triggers=(
        frozenset(
            {
                *("in_backward", "InBackward", "in_bwd", "register_post_accumulate_grad_hook"),
                *("layerwise", "lomo", "offload_gradients"),
            }
        ),
    ),
)
