"""Layers that carry a state along the row: linear attention, state-space scans, short convolutions.

Attention is told which tokens see which; these layers are not, they read a row from its first
token to its last. So the tokens of a packed row are dealt out to rows of their own, one for each
document or node of a prefix tree (`segments`), and the layer's own forward runs over these
(`running`). Where a node continues another, it begins with the state that the other ended with,
handed over by transformers' own cache protocol (`states`), with its gradient. What is such a layer
is read from its code (`finding`), and that it continues exactly is tried before it is trusted
(`trial`).

Cost: rows of unlike lengths are padded, by a quarter at most; tokens are gathered and scattered
once a layer. Each layer's kernels are its own, whatever they are.
"""

from __future__ import annotations

from memlint_runtime.recurrent.finding import StateLayers, find_state_layers
from memlint_runtime.recurrent.running import SEGMENTS, RowSegments, SegmentedForward, watch
from memlint_runtime.recurrent.segments import RowPlan, document_plan, tree_plan
from memlint_runtime.recurrent.trial import reason_of_trial

__all__ = [
    "SEGMENTS", "RowPlan", "RowSegments", "SegmentedForward", "StateLayers", "document_plan",
    "find_state_layers", "reason_of_trial", "tree_plan", "watch",
]  # fmt: skip
