"""Supervised fine-tuning that pads every row of a batch to the longest."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers
from memlint_rules.sequences.padding import share_of_padding


def check(run: TrainingRun) -> Iterator[Finding]:
    packed, rows = run.packed, run.micro_batch.number
    if rows is not None and rows < 1:
        return  # no trainer takes such a batch
    if packed.is_value(False):
        yield Finding(
            packed.span,
            _message(rows) + (f" ({packed.said})" if packed.said else ""),
            by_change(run.set(packed=True)),
            # At 1 nothing is padded, and an unknown batch may be 1.
            Level.HINT if rows is None or rows == 1 else None,
        )


def _message(rows: int | None) -> str:
    if rows == 1:
        return (
            "trains one unpacked sequence at a time: nothing is padded, but short sequences leave "
            "the GPU idle"
        )
    if rows is None:
        return "pads every sequence of a batch to the longest: neither packing nor padding-free"
    return f"pads every sequence to the longest of {rows}: {share_of_padding(rows)}"


RULE = Rule(
    summary="supervised fine-tuning with neither packing nor padding-free",
    of_run=check,
    triggers=(triggers.LIBRARIES, frozenset({"SFTTrainer"})),
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA, Skip.LEARNED_PROMPTS),
    effect={"padding": "none"},
)
