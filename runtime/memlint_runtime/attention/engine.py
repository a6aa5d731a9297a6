"""Attention over a forest of packed tokens: which path takes it, and the one call for all models.

joined     Flash kernels below autograd, their parts merged by log-sum-exp; no memory but the
           output. CPU: all but soft caps. CUDA: half precision, no soft cap; windows where nothing
           branches. Sinks join as one more term of the merged log-sum-exp.
flex       CUDA; all features and types, heads of 16 and more; a block mask.
blockwise  Anywhere; all features; plain operations, a block of queries at a time. Exact and slow.
dense      Anywhere; all features; a T x T mask: the oracle, for tests.

`joined` wherever it can: its kernels are PyTorch's own and nothing is compiled. Packed documents
take one causal call and no merging. A tree deeper than JOINED_LEVELS takes as many calls as levels,
so on CUDA it goes to `flex`. A window that no row outgrows is no window.

Under torch.compile, on CUDA, packed documents are one graph, and so is `flex`; what else there is
breaks the graph and runs as it is.

T packed tokens, P tokens of an outside prefix, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from memlint_runtime.attention.forest import DocumentForest, Forest
from memlint_runtime.attention.kernels.blockwise import PlainBlocks
from memlint_runtime.attention.kernels.dense import attend_dense_packed, dense_mask
from memlint_runtime.attention.kernels.flash import flash_serves
from memlint_runtime.attention.kernels.flex import attend_flex, forest_block_mask
from memlint_runtime.attention.kernels.joined import Part, joined_attention
from memlint_runtime.attention.plan import plan_blocks, plan_runs, plan_windows

__all__ = [
    "AttentionPath", "ForestAttention", "SharedPlans", "attend_documents", "require_path",
    "to_one_dtype",
]  # fmt: skip

AttentionPath = Literal["joined", "flex", "blockwise", "dense"]

# What the layers of one forward pass share, filled by the first.
SharedPlans = MutableMapping[str, "ForestAttention"]

JOINED_LEVELS = 4
# Queries in a block: of plain operations, and of a flash call under a window.
PLAIN_BLOCK = 256
WINDOW_BLOCKS = (128, 256)

_TRITON = find_spec("triton") is not None


def require_path(path: str | None) -> None:
    """Raise ValueError unless this names a path, or is None."""
    paths = get_args(AttentionPath)
    if path is not None and path not in paths:
        raise ValueError(f"attention path must be one of {paths}, got {path!r}")


@dataclass(eq=False)
class ForestAttention:
    """Attention over one forest, for all layers of one forward pass and its recomputation.

    forced: a path to take whatever is fastest. prefix_tokens: length of an outside prefix whose
    keys and values `__call__` is given. taken: the paths that were. Masks and plans are made once
    and kept here.
    """

    forest: Forest
    forced: AttentionPath | None = None
    prefix_tokens: int = 0
    taken: set[AttentionPath] = field(default_factory=set)
    _plans: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_path(self.forced)

    @property
    def span(self) -> int:
        """Tokens of the longest row, an outside prefix included."""
        return self.prefix_tokens + self.forest.span

    def window_that_counts(self, window: int | None) -> int | None:
        """None for a window that no row outgrows."""
        return None if window is None or self.span <= window else window

    def choose_path(
        self,
        query_THD: Tensor,
        value_TKD: Tensor,
        *,
        window: int | None = None,
        softcap: float | None = None,
    ) -> AttentionPath:
        """The path forced, else the fastest exact one for this forest, type and device."""
        if self.forced is not None:
            return self.forced
        window = self.window_that_counts(window)
        if not query_THD.is_cuda:
            on_cpu = query_THD.device.type == "cpu"
            return "joined" if on_cpu and softcap is None else "blockwise"
        if flash_serves(query_THD, value_TKD) and self._runs_serve(window, softcap):
            return "joined"
        # PyTorch's Flex kernel refuses smaller heads, which models made for tests have.
        flex_serves = _TRITON and min(query_THD.shape[-1], value_TKD.shape[-1]) >= 16
        return "flex" if flex_serves else "blockwise"

    def _runs_serve(self, window: int | None, softcap: float | None) -> bool:
        """True if the runs of flash kernels on CUDA serve, and are not too many."""
        if softcap is not None or self.forest.depth > JOINED_LEVELS:
            return False
        return window is None or (self.forest.depth == 1 and not self.prefix_tokens)

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

        window: tokens that a token sees, itself included. sinks: `[H]`, a score for each head that
        takes weight and gives no value. outside: keys and values `[P, K, D]` of the outside prefix,
        where there is one. Within autocast in its type, else in the value's.
        """
        query_THD, key_TKD, value_TKD = to_one_dtype(query_THD, key_TKD, value_TKD)
        window = self.window_that_counts(window)
        path = self.choose_path(query_THD, value_TKD, window=window, softcap=softcap)
        self.taken.add(path)
        run = self._attend if query_THD.is_cuda else self._attend_on_host
        with torch.autocast(query_THD.device.type, enabled=False):
            return run(path, query_THD, key_TKD, value_TKD, scale, window, softcap, sinks, outside)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _attend_on_host(self, *arguments: Any) -> Tensor:
        return self._attend(*arguments)

    def _attend(
        self,
        path: AttentionPath,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        outside: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        device = query.device
        if path == "dense" and outside is not None:
            raise ValueError("attention path 'dense' takes no outside prefix: choose another")
        if path == "dense":
            mask = self._kept((path, device, window), self._dense_mask, device, window)
            return attend_dense_packed(
                query, key, value, mask, scale=scale, softcap=softcap, sinks=sinks
            )
        by_runs = path == "joined" and (device.type == "cuda" or window is None)
        if outside is not None and not by_runs:
            key, value = torch.cat([outside[0], key]), torch.cat([outside[1], value])
            outside = None
        if path == "flex":
            block_mask = self._kept(("flex", device, window), self._block_mask, device, window)
            return attend_flex(
                query, key, value, block_mask, scale=scale, softcap=softcap, sinks=sinks
            )
        if path == "joined":
            self._require_joinable(device, window, softcap)
        parts = self._kept(
            (path, device, window, softcap), self._parts, path, device, window, softcap
        )
        # Flash kernels want one head dimension; a narrower value is padded with zeros.
        missing = query.shape[-1] - value.shape[-1] if path == "joined" else 0
        prefix_key, prefix_value = outside or (None, None)
        if prefix_value is not None:
            prefix_value = _widen(prefix_value, missing)
        out = joined_attention(
            query, key, _widen(value, missing), parts, scale=scale, sinks_H=sinks,
            prefix_key_PKD=prefix_key, prefix_value_PKD=prefix_value,
        )  # fmt: skip
        return out[..., : value.shape[-1]]

    def _require_joinable(
        self, device: torch.device, window: int | None, softcap: float | None
    ) -> None:
        if softcap is not None or (device.type == "cuda" and not self._runs_serve(window, None)):
            raise ValueError(
                f"attention path 'joined' on {device.type} does not serve a layer with "
                f"window={window}, softcap={softcap} here: choose 'flex' or 'blockwise'"
            )

    def _kept(self, name: Any, make: Any, *arguments: Any) -> Any:
        # While compiling, the compiler merges what layers compute alike.
        if torch.compiler.is_compiling():
            return make(*arguments)
        if name not in self._plans:
            self._plans[name] = make(*arguments)
        return self._plans[name]

    def _dense_mask(self, device: torch.device, window: int | None) -> Tensor:
        return dense_mask(self.forest, window).to(device)

    def _block_mask(self, device: torch.device, window: int | None) -> Any:
        return forest_block_mask(
            self.forest, device, window=window, prefix_tokens=self.prefix_tokens
        )

    def _parts(
        self, path: AttentionPath, device: torch.device, window: int | None, softcap: float | None
    ) -> tuple[Part, ...]:
        forest, P = self.forest, self.prefix_tokens
        if path == "blockwise":
            kernel = PlainBlocks(window, softcap)
            return plan_blocks(forest, device, kernel, window, P, PLAIN_BLOCK)
        if device.type == "cpu" and window is not None:
            least, most = WINDOW_BLOCKS
            return plan_windows(forest, window, P, max(least, min(most, window // 4)))
        return plan_runs(forest, device, P, window=window)


def to_one_dtype(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three in autocast's type where it is on, else in the value's.

    Rotary embeddings and norms leave queries and keys in float32 there.
    """
    dtype, device = value.dtype, value.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _widen(value: Tensor, missing: int) -> Tensor:
    return functional.pad(value, (0, missing)) if missing else value


def attend_documents(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_length: int,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    plans: SharedPlans | None = None,
) -> Tensor:
    """Causal attention within documents, never across them, and no T x T mask.

    query: ``[T, Hq, D]``; key: ``[T, Hk, D]``; value: ``[T, Hk, Dv]``; cu_seqlens: ``[N + 1]``
    int32; window: tokens that a token sees, itself included; sinks: ``[Hq]``. lengths (on the host)
    saves work where the caller has them; plans, a mapping that is filled, where several calls have
    the same documents. Returns ``[T, Hq, Dv]``.
    """
    if query.shape[0] == 0:
        return query[..., : value.shape[-1]]
    attention = None if plans is None else plans.get("documents")
    if attention is None:
        forest = DocumentForest(cu_seqlens, query.shape[0], max_length, lengths)
        attention = ForestAttention(forest)
        if plans is not None and not torch.compiler.is_compiling():
            plans["documents"] = attention
    return attention(query, key, value, scale=scale, window=window, softcap=softcap, sinks=sinks)
