"""A vLLM engine on the training GPU that keeps its memory while the model trains."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers


def check(run: TrainingRun) -> Iterator[Finding]:
    if run.vllm_sleep.is_value(False):
        message = "vLLM keeps its weights and key-value cache on the GPU while the model trains"
        yield Finding(run.vllm_sleep.span, message, by_change(run.set(vllm_sleep=True)))


RULE = Rule(
    summary="colocated vLLM that keeps its memory while the model trains",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"use_vllm", "vllm"})),
)
