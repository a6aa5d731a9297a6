"""What attention needs to know of packed tokens: a forest.

Every token belongs to a node. Nodes stand in depth-first order, so that a node's descendants follow
it without a gap, and two numbers a token say everything:

    token i sees token j  <=>  j <= i < stop[j]          (and position[i] - position[j] < window)

where `stop[j]` is where the descendants of j's node end. Documents packed end to end are a forest
of depth one, each a root without children; a prompt with its completions is a tree of depth two.

Before all tokens there may be an outside prefix of P tokens, which every token sees (within its
window); positions then count from the prefix's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from memlint_runtime.recurrent.segments import Node

__all__ = ["DocumentForest", "Forest", "Node"]


class Forest(Protocol):
    """T packed tokens. span: tokens of the longest row, root to leaf; depth: levels, 1 where
    nothing is shared; stop, position: `[T]`, see the module."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def span(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def stop(self) -> Tensor: ...
    @property
    def position(self) -> Tensor: ...


@dataclass(eq=False)
class DocumentForest:
    """Documents end to end: `bounds` `[N + 1]` int32, first token of each, then T.

    span: tokens of the longest document, or more. lengths: tokens of each on the host, or None
    where nobody had to know: on a GPU the bounds may be known to the device alone, and only `nodes`
    waits for it.
    """

    bounds: Tensor
    num_tokens: int
    span: int
    lengths: Sequence[int] | None = None
    depth: int = 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        lengths = self.bounds.diff().tolist() if self.lengths is None else self.lengths
        nodes, start = [], 0
        for length in lengths:
            if length:
                nodes.append(Node(start, start + length, start + length, 0))
            start += length
        return tuple(nodes)

    @property
    def stop(self) -> Tensor:
        return self.bounds[self._document() + 1].long()

    @property
    def position(self) -> Tensor:
        token = torch.arange(self.num_tokens, device=self.bounds.device)
        return token - self.bounds[self._document()]

    def _document(self) -> Tensor:
        token = torch.arange(self.num_tokens, device=self.bounds.device)
        return torch.searchsorted(self.bounds, token, right=True) - 1
