"""A preference loss over logits of size tokens times vocabulary."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, triggers
from memlint_rules.logits.trl_losses import fuse_trl_loss

_PAIRED = ("DPOTrainer", "CPOTrainer", "ORPOTrainer")
_KINDS = (*_PAIRED, "KTOTrainer", "TPOTrainer", "BCOTrainer")


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.training:
        if not trainer.is_kind(*_KINDS) or trainer.model.is_toy:
            continue
        if script.owner_of_loss(trainer).full_logits is not True:
            continue
        paired = " of both answers" if trainer.is_kind(*_PAIRED) else ""
        yield Finding(
            script.span(trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` computes its log-probabilities from the full "
            f"logits{paired}: for every token a row as wide as the vocabulary, and its gradient",
            fuse_trl_loss(script, trainer),
        )


RULE = Rule(
    summary="preference loss over the full logits",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
    effect={"loss": "no_logits"},
)
