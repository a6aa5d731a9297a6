"""A policy-gradient loss over logits of size tokens times vocabulary.

GRPO, RLOO, PPO and online DPO need the log-probability of each completion token, from the policy
and from its old and reference copies. Where the trainer takes it from the full logits, a
micro-batch of B completions of C tokens costs B x C x V numbers, their gradient, and float32 copies
where entropies or temperatures are computed. Source: ``selective_log_softmax`` in
``trl/trainer/grpo_trainer.py`` before 1.14; ``trl/experimental/online_dpo/online_dpo_trainer.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Example, Finding, Level, Rule, Script
from memlint_rules._full_logits import full_logits_trainers, fuse, is_kind
from memlint_rules._libraries import LIBRARIES
from memlint_rules._shared_prompts import number

_CHUNKED = frozenset({"GRPOTrainer", "RLOOTrainer"})
_KINDS = (*_CHUNKED, "PPOTrainer", "PPOv2Trainer", "OnlineDPOTrainer", "A2POTrainer")


def check(script: Script) -> Iterator[Finding]:
    for trainer in full_logits_trainers(script, "policy-loss", _CHUNKED):
        if not is_kind(trainer, *_KINDS):
            continue
        completion = number(script, trainer, "max_completion_length")
        rows = number(script, trainer, "per_device_train_batch_size")
        size = f", {rows:,} x {completion:,} rows" if completion and rows else ", rows"
        yield Finding(
            script.span(trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` computes its log-probabilities from the full "
            f"logits{size} as wide as the vocabulary, and their gradient",
            fuse(script, trainer),
        )


RULE = Rule(
    code="MEM203",
    name="full-logits-policy-loss",
    level=Level.WASTE,
    summary="policy-gradient loss over the full logits",
    why=(
        "Policy-gradient losses are made of the log-probabilities of completion tokens, one number "
        "each. Computed from full logits, 8 completions of 1,024 tokens and a vocabulary of "
        "151,936 words cost 2.3 GiB in bf16 for the logits, as much for their gradient, and float32 "
        "copies where an entropy or a temperature is computed; and again, without a gradient, for "
        "the old and the reference policy. TRL's GRPO and RLOO trainers compute them in chunks by "
        "now; older versions, PPO and online DPO do not."
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
            {
                "GRPOTrainer",
                "RLOOTrainer",
                "PPOTrainer",
                "OnlineDPOTrainer",
                "PPOv2Trainer",
                "A2POTrainer",
            }
        ),
    ),
    references=("https://arxiv.org/abs/2402.03300", "https://arxiv.org/abs/2411.09009"),
    examples=(
        Example(
            title="GRPO before its chunks",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer("Qwen/Qwen3-4B", reward, args=GRPOConfig("out"), train_dataset=rows)
trainer.train()
""",
            target="trl=0.19",
        ),
        Example(
            title="online DPO",
            bad="""\
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

trainer = OnlineDPOTrainer(model, reward_funcs=reward, args=OnlineDPOConfig("out"))
trainer.train()
""",
        ),
    ),
)
