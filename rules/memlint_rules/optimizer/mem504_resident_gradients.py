"""A full fine-tune without accumulation that keeps all gradients until the optimizer's step.

Gradients of all weights are alive when the step begins: 2 bytes a parameter in bf16, 15 GiB for 8
billion. Without accumulation nothing needs them together but the clipping by their global norm: an
optimizer that steps inside backward uses and frees each as it is complete. Cost: no clipping by the
global norm, no accumulation, one process. Source: PyTorch tutorial, "How to save memory by fusing
the optimizer step into the backward pass".
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters.
_LARGE = 6.0


def check(run: TrainingRun) -> Iterator[Finding]:
    step = run.in_backward
    if not step.is_value(False) or not run.gradient_accumulation.is_value(1):
        return
    if run.has_billions(_LARGE, inf) and not run.method.is_value("lora"):
        yield Finding(step.span, step.said, by_change(run.set(in_backward=True)))


RULE = Rule(
    code="MEM504",
    name="resident-gradients",
    level=Level.HINT,
    summary="a full fine-tune that keeps all gradients until the optimizer's step",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.DEEPSPEED),
    triggers=(triggers.LIBRARIES, triggers.UPDATES),
)
