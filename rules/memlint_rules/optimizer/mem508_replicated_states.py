"""A full fine-tune on several GPUs, each of which keeps all weights, gradients and states.

Data parallelism (DDP) copies everything onto every GPU: 8 bytes a parameter with bf16 weights and
AdamW, 57 GiB for 7.6 billion, on each of 8. Sharded over them (FSDP 2, ZeRO) a GPU keeps an eighth,
and gathers one layer at a time while it is used; the steps are the same. Source: Rajbhandari et
al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv:1910.02054.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change

# Billions of parameters: smaller models fit, and gathering costs time.
_LEAST = 3


def check(run: TrainingRun) -> Iterator[Finding]:
    copied, billions = run.replicated, run.billions
    if not copied.is_value(True) or billions is None or billions < _LEAST:
        return
    width = 16 if run.weights_dtype.is_value("float32") else 8
    yield Finding(
        copied.span,
        f"{copied.said} keeps all weights, gradients and optimizer states on every GPU: "
        f"{width * billions * 1e9 / 2**30:.0f} GiB for {billions:g} billion with AdamW",
        by_change(run.set(replicated=False)),
    )


RULE = Rule(
    code="MEM508",
    name="replicated-states",
    level=Level.HINT,
    summary="a large full fine-tune on several GPUs, whole on each of them",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS, Skip.DEEPSPEED),
)
