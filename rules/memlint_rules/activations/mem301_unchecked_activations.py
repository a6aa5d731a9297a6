"""Training that keeps every layer's activations until the backward pass.

Without activation checkpointing a decoder layer keeps some 34 times hidden size bytes per token in
bf16 (attention and MLP inputs, projections, norms); with it, only the layer's input: 2 times hidden
size. The price is one more forward pass, about a third more compute. Source: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198; transformers,
"GPU" (gradient checkpointing).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers


def check(run: TrainingRun) -> Iterator[Finding]:
    checkpointing = run.checkpointing
    if not checkpointing.is_value("none") or checkpointing.pending:
        return
    if run.trains_language_model:
        yield Finding(
            checkpointing.span,
            f"{checkpointing.said}: the activations of all layers are kept until backward",
            by_change(run.set(checkpointing="full")),
        )


RULE = Rule(
    code="MEM301",
    name="unchecked-activations",
    level=Level.WASTE,
    summary="no activation checkpointing",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, triggers.TRAINING),
)
