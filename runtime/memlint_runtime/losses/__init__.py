"""Language-modelling losses at the memory floor, for every method and any head.

Everything rests on `token_logprobs`: log-probabilities of given tokens from hidden states and
head, without the T x V logits. The losses are small functions of its [T] output.
"""

from __future__ import annotations

from memlint_runtime.losses.token_logprobs import (
    TokenStatistics,
    default_workspace_bytes,
    token_logprobs,
    token_statistics,
)

__all__ = [
    "TokenStatistics",
    "default_workspace_bytes",
    "token_logprobs",
    "token_statistics",
]
