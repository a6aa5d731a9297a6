"""An input embedding that stays on the host: rows are gathered there, only they travel.

The ids of a batch choose tokens x width entries of a matrix of vocabulary x width: 4 MB of
Llama-3.1-8B's 1.05 GB for 512 tokens. Frozen embeddings alone; nothing of them is needed in
backward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to

__all__ = ["stream_embedding"]


def stream_embedding(
    patch: Patch,
    embedding: nn.Module,
    device: Callable[[], torch.device],
    store: Callable[[], Tensor],
) -> None:
    """Make `embedding` read its rows from `store()` `[V, D]`, on the host, and give them on
    `device()`, until `patch` is undone."""

    def make(own: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, ids: Tensor) -> Any:
            host = store()
            rows = host.index_select(0, ids.reshape(-1).to(host.device)).to(device())
            if type(self).forward is nn.Embedding.forward:
                return rows.view(*ids.shape, rows.shape[-1])
            return _with_rows(own, self, ids, rows)

        return forward

    patch.replace(embedding, "forward", bound_to(embedding, "forward", make))


def _with_rows(own: Callable[..., Any], module: Any, ids: Tensor, rows: Tensor) -> Any:
    """What a kind of embedding of its own (Gemma's scales its rows) makes of these rows."""
    weight, padding = module.weight.data, module.padding_idx
    places = torch.arange(rows.shape[0], device=rows.device).view(ids.shape)
    try:
        module.weight.data, module.padding_idx = rows, None
        return own(module, places)
    finally:
        module.weight.data, module.padding_idx = weight, padding
