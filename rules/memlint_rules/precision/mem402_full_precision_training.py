"""Training that computes in float32 where mixed precision would halve its activations."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers


def check(run: TrainingRun) -> Iterator[Finding]:
    compute = run.compute_dtype
    if compute.is_value("float32"):
        message = f"{compute.said}: every activation takes 4 bytes where 2 would do"
        yield Finding(compute.span, message, by_change(run.set(compute_dtype="bfloat16")))


RULE = Rule(
    summary="neither bf16 nor fp16",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.STEPS, triggers.TRAINING),
)
