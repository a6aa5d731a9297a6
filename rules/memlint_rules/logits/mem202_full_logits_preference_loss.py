"""A preference loss over logits of size tokens times vocabulary.

DPO and its kin need one number of each token: the log-probability that the model gave it. Their
trainers computed it from the full logits of chosen and rejected answers at once, of the policy and
of the reference: 2 bytes a logit in bf16, as much for the gradient, and float32 copies on the way.
TRL's DPO and KTO do so no longer; CPO (SimPO), ORPO and TPO do in every version. Source:
``concatenated_forward`` of ``trl/experimental/cpo/cpo_trainer.py`` and
``trl/experimental/orpo/orpo_trainer.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Example, Finding, Level, Rule, Script
from memlint_rules._full_logits import full_logits_trainers, fuse, is_kind
from memlint_rules._libraries import LIBRARIES

_CHUNKED = frozenset({"DPOTrainer", "KTOTrainer"})
_KINDS = (*_CHUNKED, "CPOTrainer", "ORPOTrainer", "TPOTrainer", "BCOTrainer")
_PAIRED = ("DPOTrainer", "CPOTrainer", "ORPOTrainer")


def check(script: Script) -> Iterator[Finding]:
    for trainer in full_logits_trainers(script, "preference-loss", _CHUNKED):
        if not is_kind(trainer, *_KINDS):
            continue
        paired = " of both answers" if is_kind(trainer, *_PAIRED) else ""
        yield Finding(
            script.span(trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` computes its log-probabilities from the full "
            f"logits{paired}: for every token a row as wide as the vocabulary, and its gradient",
            fuse(script, trainer),
        )


RULE = Rule(
    code="MEM202",
    name="full-logits-preference-loss",
    level=Level.WASTE,
    summary="preference loss over the full logits",
    why=(
        "Preference losses compare the log-probabilities of answers. One number a token is all "
        "that they need, and a row of logits as wide as the vocabulary is what was computed for "
        "it, for chosen and rejected answers together: with 151,936 words, pairs of 1,024 tokens "
        "and a batch of 8, 4.6 GiB in bf16, and as much again for each of gradient and copies. "
        "TRL's DPO and KTO trainers compute them in chunks by now; older versions do not, nor do "
        "CPO (with it SimPO), ORPO and TPO."
    ),
    fix_safety=(
        "Safe: the same losses and gradients up to rounding. One call after the trainer is made "
        "(`pip install 'torch-memlint[runtime]'`), which refuses a layout that it does not know. "
        "For releases with which it is not tested, their own option for Liger's loss is advised."
    ),
    check=check,
    triggers=(
        LIBRARIES,
        frozenset(
            {"DPOTrainer", "KTOTrainer", "CPOTrainer", "ORPOTrainer", "TPOTrainer", "BCOTrainer"}
        ),
    ),
    references=(
        "https://arxiv.org/abs/2305.18290",
        "https://arxiv.org/abs/2403.07691",
        "https://arxiv.org/abs/2411.09009",
    ),
    examples=(
        Example(
            title="ORPO",
            bad="""\
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

args = ORPOConfig("out", beta=0.1)
trainer = ORPOTrainer(model, args=args, train_dataset=pairs, processing_class=tokenizer)
trainer.train()
""",
            good="""\
from trl.experimental.orpo import ORPOConfig, ORPOTrainer
from memlint_runtime.losses import fuse_trl_losses

args = ORPOConfig("out", beta=0.1)
trainer = ORPOTrainer(model, args=args, train_dataset=pairs, processing_class=tokenizer)
fuse_trl_losses(trainer)
trainer.train()
""",
        ),
        Example(
            title="SimPO without a name for its trainer",
            bad="""\
from trl.experimental.cpo import CPOConfig, CPOTrainer

CPOTrainer(model, args=CPOConfig("out", loss_type="simpo"), train_dataset=pairs).train()
""",
        ),
    ),
)
