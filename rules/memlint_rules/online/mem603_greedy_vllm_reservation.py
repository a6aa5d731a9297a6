"""A vLLM engine on the training GPU that reserves most of it."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers

# Shares of the GPU: more than this is greedy; what TRL gives it by default.
_MOST, _MODEST = 0.5, 0.3


def check(run: TrainingRun) -> Iterator[Finding]:
    share = run.vllm_share
    # What sleeps gives its share back while the model trains.
    if not run.vllm_sleep.is_value(False, None) or not isinstance(share.value, float):
        return
    if _MOST < share.value <= 1.0:
        yield Finding(
            share.span,
            f"{share.said}: vLLM reserves that part of the GPU for itself, and training has to do "
            "with what is left",
            by_change(run.set(vllm_share=_MODEST)),
        )


RULE = Rule(
    summary="colocated vLLM that reserves more than half of the GPU",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"use_vllm", "vllm"})),
)
