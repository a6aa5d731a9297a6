"""A large frozen base in 16 bits under an adapter, where 4 bits would do."""

from collections.abc import Iterator
from math import inf

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters: a smaller base is not worth it.
_LEAST = 1.05


def check(run: TrainingRun) -> Iterator[Finding]:
    base = run.quantization
    if base.is_value(None) and run.has_billions(_LEAST, inf):
        yield Finding(base.span, base.said, by_change(run.set(quantization="nf4")))


RULE = Rule(
    level=Level.HINT,
    summary="a large frozen base in 16 bits under an adapter",
    of_run=check,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"peft", "Lora"})),
)
