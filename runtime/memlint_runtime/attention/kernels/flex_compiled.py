"""FlexAttention as compiled code, and the soft cap in a form that compiles.

Compiled once for each kind of call (window or none, soft cap or none), with dynamic shapes: a new
length must not compile anew. A soft cap is a tensor: as a number of Python's it would become a
symbol of the compiler's under dynamic shapes, which FlexAttention cannot trace with gradients;
then all T x T scores are made, in float32, without a word.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

__all__ = ["compile_flex", "compiled_flex", "soft_cap"]

# Windows, caps, types and one-block masks are kinds of their own; torch stops at 8 in all.
_KINDS = 64


def soft_cap(cap: float, device: torch.device) -> Callable[..., Tensor]:
    """Score modification of FlexAttention: `cap * tanh(score / cap)`."""
    cap_0 = torch.full((), cap, dtype=torch.float32, device=device)

    def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return cap_0 * torch.tanh(score / cap_0)

    return capped


def compile_flex(backend: Any = "inductor") -> Callable[..., Any]:
    """`flex_attention`, compiled with its own count of recompilations."""
    options: dict[str, Any] = {"recompile_limit": _KINDS, "isolate_recompiles": True}
    known = inspect.signature(torch.compile).parameters  # newer versions of torch have these
    options = {name: value for name, value in options.items() if name in known}
    compiled: Callable[..., Any] = torch.compile(
        flex_attention, dynamic=True, backend=backend, **options
    )
    return compiled


@cache
def compiled_flex() -> Callable[..., Any]:
    """The one of this process."""
    return compile_flex()
