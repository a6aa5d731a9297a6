"""All weights of a large model trained, where an adapter would train a hundredth of them.

Every trained weight brings a gradient and two states of Adam: 12 bytes on top of a float32 weight,
6 on top of a bf16 one. A LoRA trains some 0.1 to 2 % of the weights and leaves the base as it is.
Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685; torchtune
documentation, "Memory Optimization Overview" (LoRA).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change

# Billions of parameters: of a smaller model all weights may well be trained.
_LEAST = 1.05


def check(run: TrainingRun) -> Iterator[Finding]:
    method = run.method
    if method.is_value("full") and run.has_billions(_LEAST, inf):
        yield Finding(method.span, method.said, by_change(run.set(method="lora")))


RULE = Rule(
    code="MEM406",
    name="full-fine-tune",
    level=Level.HINT,
    summary="all weights of a large model trained, without an adapter",
    of_run=check,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
)
