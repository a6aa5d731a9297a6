"""All weights of a large model trained, where an adapter would train a hundredth of them."""

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
    level=Level.HINT,
    summary="all weights of a large model trained, without an adapter",
    of_run=check,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
)
