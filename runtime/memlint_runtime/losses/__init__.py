"""Language-modelling losses at the memory floor, for every method and any head.

Everything rests on `token_logprobs`: log-probabilities of given tokens from hidden states and
head, without the T x V logits. The losses are small functions of its [T] output.
"""

from __future__ import annotations

from memlint_runtime.losses.causal_lm import FusedLoss, fuse_causal_lm_loss
from memlint_runtime.losses.cross_entropy import cross_entropy, reduce_tokens, token_cross_entropy
from memlint_runtime.losses.deferred import (
    DeferredLogits,
    defer_logits,
    head_logits,
    sequence_logprobs,
)
from memlint_runtime.losses.distillation import OutputHead, distillation_loss
from memlint_runtime.losses.fuse import fuse
from memlint_runtime.losses.modules import LinearCrossEntropyLoss
from memlint_runtime.losses.passes import default_workspace_bytes
from memlint_runtime.losses.policy import policy_loss
from memlint_runtime.losses.preference import (
    answer_logprobs,
    cpo_loss,
    dpo_loss,
    kto_loss,
    orpo_loss,
    simpo_loss,
)
from memlint_runtime.losses.reward import bradley_terry_loss
from memlint_runtime.losses.token_logprobs import TokenStatistics, token_logprobs, token_statistics
from memlint_runtime.losses.trl_losses import fuse_trl_losses

__all__ = [
    "DeferredLogits", "FusedLoss", "LinearCrossEntropyLoss", "OutputHead", "TokenStatistics",
    "answer_logprobs", "bradley_terry_loss", "cpo_loss", "cross_entropy",
    "default_workspace_bytes", "defer_logits", "distillation_loss", "dpo_loss", "fuse",
    "fuse_causal_lm_loss", "fuse_trl_losses", "head_logits", "kto_loss", "orpo_loss", "policy_loss",
    "reduce_tokens", "sequence_logprobs", "simpo_loss", "token_cross_entropy", "token_logprobs",
    "token_statistics",
]  # fmt: skip
