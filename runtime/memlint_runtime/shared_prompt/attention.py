"""Attention over a prefix tree: which path takes it, and the one function that all models call.

joined   CPU, and CUDA in half precision; neither window nor soft cap; no memory but the output.
         Sinks join as one more term of the merged log-sum-exp; the other paths take them too.
flex     CUDA; all of these; a block mask.
chunked  anywhere; all of these; one chunk's mask. Exact and slow.
dense    anywhere; all of these; a T x T mask: the oracle, for tests.

`joined` wherever it can: its kernels are PyTorch's own and nothing is compiled. A tree deeper than
JOINED_LEVELS takes as many calls as levels, so on CUDA it goes to `flex`. A window that no row
outgrows is no window.

T packed tokens, P tokens of an outside prefix, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from memlint_runtime.shared_prompt.chunked import chunked_attention
from memlint_runtime.shared_prompt.joined import JoinPlan, joined_attention, plan_join
from memlint_runtime.shared_prompt.kernels import kernel_for
from memlint_runtime.shared_prompt.layout import PrefixTree
from memlint_runtime.shared_prompt.oracle import dense_attention, dense_mask

__all__ = ["AttentionPath", "TreeAttention", "choose_path"]

AttentionPath = Literal["joined", "flex", "chunked", "dense"]

JOINED_LEVELS = 4
FLASH_HEAD_DIM = 256


def choose_path(
    tree: PrefixTree,
    query_THD: Tensor,
    value_TKD: Tensor,
    *,
    windowed: bool = False,
    softcap: float | None = None,
) -> AttentionPath:
    """The fastest exact path for this tree, type and device."""
    plain = not windowed and softcap is None
    if query_THD.device.type != "cuda":
        return "joined" if plain else "chunked"
    width = max(query_THD.shape[-1], value_TKD.shape[-1])
    flash = query_THD.dtype in (torch.float16, torch.bfloat16) and (
        width <= FLASH_HEAD_DIM and width % 8 == 0
    )
    if plain and flash and tree.depth <= JOINED_LEVELS:
        return "joined"
    return "flex" if _flex_works() else "chunked"


def _flex_works() -> bool:
    from importlib.util import find_spec

    return find_spec("triton") is not None


@dataclass(eq=False)
class TreeAttention:
    """Attention over one tree, for all layers of one forward pass and its recomputation.

    forced: a path to take whatever `choose_path` says. prefix_tokens: length of an outside prefix
    whose keys and values `__call__` is given. Masks and plans are made once and kept here.
    """

    tree: PrefixTree
    forced: AttentionPath | None = None
    prefix_tokens: int = 0
    taken: set[AttentionPath] = field(default_factory=set)
    _plans: dict[torch.device, JoinPlan] = field(default_factory=dict)
    _masks: dict[tuple[str, torch.device, int | None], Any] = field(default_factory=dict)

    @property
    def span(self) -> int:
        """Tokens of the longest row, an outside prefix included."""
        return self.prefix_tokens + self.tree.span

    def __call__(
        self,
        query_THD: Tensor,
        key_TKD: Tensor,
        value_TKD: Tensor,
        *,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
        outside: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Each token over its row's tokens up to itself, `[T, H, value's D]`.

        sinks: `[H]`, a score for each head that takes weight and gives no value. outside: keys and
        values `[P, K, D]` of the outside prefix, where there is one.
        """
        if window is not None and self.span <= window:
            window = None
        path = self.forced or choose_path(
            self.tree, query_THD, value_TKD, windowed=window is not None, softcap=softcap
        )
        self.taken.add(path)
        key_PKD, value_PKD = outside or (None, None)
        if path == "joined":
            if window is not None or softcap is not None:
                raise ValueError(
                    "attention path 'joined' has neither sliding window nor soft cap, and this "
                    f"layer needs window={window}, softcap={softcap}: choose 'flex' or 'chunked'"
                )
            # The kernels want one head dimension; a narrower value is padded with zeros.
            missing = query_THD.shape[-1] - value_TKD.shape[-1]
            out = joined_attention(
                query_THD,
                key_TKD,
                _widen(value_TKD, missing),
                self._plan(query_THD.device),
                kernel_for(query_THD.device),
                scale=scale,
                prefix_key_PKD=key_PKD,
                prefix_value_PKD=None if value_PKD is None else _widen(value_PKD, missing),
                sinks_H=sinks,
            )
            return out[..., : value_TKD.shape[-1]]
        if path == "chunked":
            return chunked_attention(
                query_THD,
                key_TKD,
                value_TKD,
                self.tree,
                scale=scale,
                window=window,
                softcap=softcap,
                sinks_H=sinks,
                prefix_key_PKD=key_PKD,
                prefix_value_PKD=value_PKD,
            )
        if path == "flex":
            from memlint_runtime.shared_prompt.flex import flex_over_tree

            return flex_over_tree(
                query_THD,
                key_TKD,
                value_TKD,
                self._mask(path, query_THD.device, window),
                scale=scale,
                softcap=softcap,
                sinks_H=sinks,
                prefix_key_PKD=key_PKD,
                prefix_value_PKD=value_PKD,
            )
        if outside is not None:
            raise ValueError("attention path 'dense' takes no outside prefix: choose another path")
        mask = self._mask(path, query_THD.device, window)
        return dense_attention(
            query_THD, key_TKD, value_TKD, mask, scale=scale, softcap=softcap, sinks_H=sinks
        )

    def _plan(self, device: torch.device) -> JoinPlan:
        if device not in self._plans:
            # On CUDA, flash kernels take runs of any length in one call, and copies cost more.
            by_path = device.type != "cuda"
            self._plans[device] = plan_join(self.tree, device, self.prefix_tokens, by_path=by_path)
        return self._plans[device]

    def _mask(self, path: AttentionPath, device: torch.device, window: int | None) -> Any:
        key = (path, device, window)
        if key not in self._masks:
            if path == "flex":
                from memlint_runtime.shared_prompt.flex import tree_block_mask

                self._masks[key] = tree_block_mask(
                    self.tree, device, window=window, prefix_tokens=self.prefix_tokens
                )
            else:
                self._masks[key] = dense_mask(self.tree, window).to(device)
        return self._masks[key]


def _widen(value: Tensor, missing: int) -> Tensor:
    return functional.pad(value, (0, missing)) if missing else value
