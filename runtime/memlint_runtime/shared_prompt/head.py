"""What a causal language model does with its hidden states: head, scale, soft cap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from memlint_runtime.losses import token_logprobs

__all__ = ["OutputHead"]


@dataclass(frozen=True, eq=False)
class OutputHead:
    """The output head of a model, read when it is used: wrappers replace its weights."""

    model: PreTrainedModel
    temperature: float = 1.0

    def score(self, hidden_ND: Tensor, target_N: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy of each target, `[N]` each, in float32.

        Raises ValueError for a head that is sharded or adapted in a way that weights alone
        do not show.
        """
        model: Any = self.model
        layer = model.get_output_embeddings()
        with _brought(layer, hidden_ND):
            return self._score(layer, hidden_ND, target_N)

    def _score(self, layer: Any, hidden_ND: Tensor, target_N: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = layer.weight, getattr(layer, "bias", None)
        if hasattr(layer, "lora_A"):
            raise ValueError(
                "the output head carries a LoRA adapter, which scoring by its weights would "
                "miss: leave the head out of target_modules"
            )
        if hasattr(weight, "ds_id"):
            raise ValueError("the output head is sharded by ZeRO-3: use the TRL trainers' path")
        if isinstance(weight, DTensor):
            weight = weight.full_tensor()
            bias = bias.full_tensor() if isinstance(bias, DTensor) else bias
        return token_logprobs(
            hidden_ND.to(weight.device),
            weight,
            target_N.to(weight.device),
            linear_bias=bias,
            softcap=getattr(self.config, "final_logit_softcapping", None),
            temperature=self.temperature,
            logit_scale=self.logit_scale,
            entropy=True,
        )

    @property
    def config(self) -> Any:
        return self.model.config.get_text_config()

    @property
    def logit_scale(self) -> float:
        """The factor on the logits, by the names that architectures give it."""
        for name in ("logit_scale", "output_multiplier", "lm_head_multiplier"):
            if getattr(self.config, name, None) is not None:
                return float(getattr(self.config, name))
        if getattr(self.config, "logits_scaling", None) is not None:
            scaling = float(self.config.logits_scaling)
            return scaling if self.config.model_type == "hyperclovax" else 1 / scaling
        return 1.0


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
