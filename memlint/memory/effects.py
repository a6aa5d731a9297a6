"""What mending a finding changes in the settings of a run: what the rule or its fix says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlint.memory.settings import Settings, replace
from memlint.memory.trainer_kinds import kind_of

if TYPE_CHECKING:
    from memlint.rule.findings import Finding

Changes = tuple[tuple[str, Any], ...]


def effect_of(finding: Finding, known: Settings) -> Changes:
    """The settings that change once the finding is mended; empty: nothing that has a price.

    known: the settings of the run, complete.
    """
    changes: dict[str, Any] = dict(finding.effect)
    if changes.get("loss") == "no_logits":
        changes["loss"] = without_logits(known)
    if changes.get("checkpointing") == "non_reentrant":
        reentrant = known.checkpointing == "reentrant"
        changes["checkpointing"] = "full" if reentrant else known.checkpointing
    if changes.get("eval_batch") == "micro_batch":
        changes["eval_batch"] = known.micro_batch
    if changes.get("method") == "qlora" and (known.method != "lora" or known.quantization):
        return ()
    changed = replace(known, **changes) if changes else known
    return tuple(
        (key, getattr(changed, key))
        for key in sorted(changes)
        if getattr(known, key) != getattr(changed, key)
    )


def without_logits(known: Settings) -> str | None:
    """The loss that never has all logits: TRL's tiles in its trainers, else gradients by pieces."""
    if known.loss != "full_logits":
        return known.loss
    return "chunked" if kind_of(known.trainer).tiled else "liger"
