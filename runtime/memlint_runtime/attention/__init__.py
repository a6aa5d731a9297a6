"""Attention that keeps the documents of a row apart, on stock PyTorch."""

from __future__ import annotations

from memlint_runtime.attention.dispatch import attend_documents
from memlint_runtime.attention.documents import Documents, documents_of_lengths
from memlint_runtime.attention.integration import use_variable_length_attention

__all__ = [
    "Documents",
    "attend_documents",
    "documents_of_lengths",
    "use_variable_length_attention",
]
