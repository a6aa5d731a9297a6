"""A policy-gradient loss over logits of size tokens times vocabulary."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, triggers
from memlint_rules.logits.trl_losses import fuse_trl_loss

_KINDS = (
    *("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "PPOv2Trainer", "OnlineDPOTrainer"),
    "A2POTrainer",
)


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.training:
        if not trainer.is_kind(*_KINDS) or trainer.model.is_toy:
            continue
        if script.owner_of_loss(trainer).full_logits is not True:
            continue
        completion = trainer.number("max_completion_length")
        rows = trainer.number("per_device_train_batch_size")
        size = f", {rows:,} x {completion:,} rows" if completion and rows else ", rows"
        yield Finding(
            script.span(trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` computes its log-probabilities from the full "
            f"logits{size} as wide as the vocabulary, and their gradient",
            fuse_trl_loss(script, trainer),
        )


RULE = Rule(
    summary="policy-gradient loss over the full logits",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
    effect={"loss": "no_logits"},
)
