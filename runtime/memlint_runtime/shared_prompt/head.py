"""Log-probabilities from a causal language model's hidden states: head, scale, soft cap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from memlint_runtime.losses import token_logprobs
from memlint_runtime.losses.output_head import check_head, logit_transform, read_head

__all__ = ["score_by_head"]


def score_by_head(
    model: PreTrainedModel, hidden_ND: Tensor, target_N: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of each target, `[N]` each, in float32, by the model's head as it
    is now: wrappers replace its weights.

    Raises ValueError for a head that is sharded by ZeRO-3, or adapted otherwise than by LoRA.
    """
    owner: Any = model
    layer = owner.get_output_embeddings()
    with _brought(layer, hidden_ND):
        if hasattr(layer, "base_layer"):
            check_head(layer)
        if hasattr(layer.weight, "ds_id"):
            raise ValueError("the output head is sharded by ZeRO-3: use the TRL trainers' path")
        head, transform = read_head(layer), logit_transform(model.config)
        hidden_ND = hidden_ND.to(head.weight.device)
        return token_logprobs(
            hidden_ND,
            head.weight,
            target_N.to(head.weight.device),
            softcap=transform.softcap,
            temperature=temperature,
            logit_scale=transform.scale,
            entropy=True,
            **head.options(hidden_ND),
        )


@contextmanager
def _brought(layer: Any, hidden: Tensor) -> Iterator[None]:
    """Within, a head that accelerate keeps on the host or on disk has its weights."""
    hook = getattr(layer, "_hf_hook", None)
    if hook is None or not layer.weight.is_meta:
        yield
        return
    hook.pre_forward(layer, hidden)
    try:
        yield
    finally:
        hook.post_forward(layer, hidden)
