"""Faults and fixes that several rules share, which ``memlint.rule`` offers to them."""

from __future__ import annotations

from memlint.rule.causal_loss import fuse_trainers_loss
from memlint.rule.engines import colocated_engines, colocates_vllm
from memlint.rule.loops import (
    float32_loads,
    frozen_models_with_autograd,
    full_precision_loops,
    larger_evaluation_loops,
    references_of_loops,
    unchecked_loops,
    upcast_models,
)
from memlint.rule.padding import (
    PADDING_COLLATORS,
    leave_padding_to_collator,
    makes_own_mask,
    padding_advice,
    share_of_padding,
)
from memlint.rule.shared_prompts import prompt_sharing_trainer, share_prompts
from memlint.rule.trl_losses import fuse_trl_loss

__all__ = [
    "PADDING_COLLATORS",
    "colocated_engines",
    "colocates_vllm",
    "float32_loads",
    "frozen_models_with_autograd",
    "full_precision_loops",
    "fuse_trainers_loss",
    "fuse_trl_loss",
    "larger_evaluation_loops",
    "leave_padding_to_collator",
    "makes_own_mask",
    "padding_advice",
    "prompt_sharing_trainer",
    "references_of_loops",
    "share_of_padding",
    "share_prompts",
    "unchecked_loops",
    "upcast_models",
]
