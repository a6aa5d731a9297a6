"""Attention over packed tokens on stock PyTorch: documents kept apart, and trees of prefixes.

One engine for both (`engine`): a forest says which tokens see which, and packed documents are a
forest of depth one.
"""

from __future__ import annotations

from memlint_runtime.attention.documents import Documents, documents_of_lengths
from memlint_runtime.attention.engine import (
    AttentionPath,
    ForestAttention,
    attend_documents,
    require_path,
    to_one_dtype,
)
from memlint_runtime.attention.forest import Forest, Node
from memlint_runtime.attention.integration import use_variable_length_attention
from memlint_runtime.attention.kernels.dense import attend_dense_packed, dense_mask
from memlint_runtime.attention.refusals import attends, require_within_window, window_in_mask_alone

__all__ = [
    "AttentionPath", "Documents", "Forest", "ForestAttention", "Node", "attend_dense_packed",
    "attend_documents", "attends", "dense_mask", "documents_of_lengths", "require_path",
    "require_within_window", "to_one_dtype", "use_variable_length_attention",
    "window_in_mask_alone",
]  # fmt: skip
