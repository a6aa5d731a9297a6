"""Rows that begin alike go through the model once: exact, with gradient, on stock PyTorch.

In GRPO, RLOO and DPO every prompt stands in several rows, and its hidden states are the same in
all of them. Here a batch becomes a packed prefix tree (`layout`) that attention follows exactly
(`memlint_runtime.attention`), so that P + G(C - 1) tokens are forwarded where the repeated batch
has G(P + C).
"""

from __future__ import annotations

from memlint_runtime.shared_prompt.logprobs import (
    SharedPromptScores,
    shared_prefix_logprobs,
    shared_prompt_logprobs,
)
from memlint_runtime.shared_prompt.runs import Sharing

__all__ = ["SharedPromptScores", "Sharing", "shared_prefix_logprobs", "shared_prompt_logprobs"]
