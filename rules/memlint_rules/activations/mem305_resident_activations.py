"""Long contexts whose checkpointed activations stay on the GPU."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers


def check(run: TrainingRun) -> Iterator[Finding]:
    if not (run.offload.is_value("none") and run.checkpointing.is_value("full")):
        return
    tokens = run.seq_len.number
    rows = f", {tokens / 4096:,.1f} GiB a row of {tokens:,} for Llama 3 8B" if tokens else ""
    yield Finding(
        run.offload.span,
        "the inputs of checkpointed layers stay on the GPU until backward: 2 bytes x layers x "
        f"hidden size a token{rows}",
        by_change(run.set(offload="activations")),
    )


RULE = Rule(
    level=Level.HINT,
    summary="long contexts whose checkpointed activations stay on the GPU",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"max_length", "max_seq_length", "max_completion_length"}),
    ),
)
