"""A model's output head as the tensors that the tiled losses take.

What: reads `nn.Linear` heads, PEFT's LoRA layers around them (the adapter stays a low-rank pair
and is folded into the tiles), heads trained whole (`modules_to_save`), and, from the model's
config, what it does to its logits: soft caps (Gemma), multipliers (Cohere, Falcon-H1), divisors
(Granite, MiniCPM3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial

from memlint_runtime.losses.tile_ops import LogitTransform

_MULTIPLIERS = ("logit_scale", "output_multiplier", "lm_head_multiplier")


@dataclass(frozen=True)
class HeadTensors:
    """`weight` `[V, D]`, `bias` `[V]`, and for LoRA the pair of `token_logprobs`, of a hidden."""

    weight: Tensor
    bias: Tensor | None
    low_rank: Callable[[Tensor], tuple[Tensor, Tensor]] | None

    def options(self, hidden: Tensor) -> dict[str, Any]:
        """Keywords of `token_logprobs`."""
        low_rank = None if self.low_rank is None else self.low_rank(hidden)
        return {"bias": self.bias, "low_rank": low_rank}


def check_head(module: nn.Module) -> None:
    """Raise ValueError if the head is of a kind that cannot be tiled."""
    if hasattr(module, "modules_to_save"):
        return
    base = getattr(module, "base_layer", module)
    weight = getattr(base, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise ValueError(
            f"the output head is an nn.Linear or a LoRA layer around one, got {type(base).__name__}"
        )
    if not weight.is_floating_point() or hasattr(weight, "quant_state"):
        raise ValueError(
            f"the output head is quantized ({type(base).__name__}): leave it out of quantization "
            "(llm_int8_skip_modules=['lm_head'])"
        )
    if base is not module:
        if not all(hasattr(module, name) for name in ("lora_A", "lora_B", "scaling")):
            raise ValueError(
                f"of the adapters only LoRA can be folded into the head, got "
                f"{type(module).__name__}: train the head whole (modules_to_save=['lm_head'])"
            )
        if any(getattr(module, "use_dora", {}).values()):
            raise ValueError(
                "a DoRA head scales by the norm of the whole weight and cannot be tiled: "
                "use plain LoRA, or leave lm_head out of target_modules"
            )


def read_head(module: Any) -> HeadTensors:
    """The tensors of a head that `check_head` accepts, gathered where they are sharded."""
    if hasattr(module, "modules_to_save"):
        adapter = module.active_adapter
        chosen = adapter[0] if isinstance(adapter, (list, tuple)) else adapter
        if getattr(module, "disable_adapters", False) or chosen not in module.modules_to_save:
            return read_head(module.original_module)
        return read_head(module.modules_to_save[chosen])
    base: Any = getattr(module, "base_layer", module)
    weight, bias = gather(base.weight), gather(getattr(base, "bias", None))
    assert weight is not None
    low_rank = None if base is module else _low_rank_of(module)
    return HeadTensors(weight, bias, low_rank)


def _low_rank_of(layer: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
    if layer.disable_adapters or layer.merged:
        return None
    adapters = [name for name in layer.active_adapters if name in layer.lora_A]
    if not adapters:
        return None

    def low_rank(hidden: Tensor) -> tuple[Tensor, Tensor]:
        down, up = [], []
        for name in adapters:
            weight_A = layer.lora_A[name]
            entered = hidden
            if not torch.is_autocast_enabled(hidden.device.type):
                entered = hidden.to(weight_A.weight.dtype)
            down.append(weight_A(layer.lora_dropout[name](entered)) * layer.scaling[name])
            gathered = gather(layer.lora_B[name].weight)
            assert gathered is not None
            up.append(gathered)
        return torch.cat(down, -1), up[0] if len(up) == 1 else torch.cat(up, 1)

    return low_rank


def gather(tensor: Tensor | None) -> Tensor | None:
    """A whole tensor of a sharded one. Its gradient is averaged over the ranks on the way back."""
    if isinstance(tensor, DTensor):
        return tensor.full_tensor(grad_placements=[Partial("avg")] * tensor.device_mesh.ndim)
    return tensor


def logit_transform(config: Any) -> LogitTransform:
    """What a transformers config says the model does to its raw logits."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    scale = 1.0
    for name in _MULTIPLIERS:
        multiplier = getattr(text, name, None)
        if multiplier is not None:
            scale = float(multiplier)
            break
    else:
        divisor = getattr(text, "logits_scaling", None)
        if divisor is not None:
            scale = float(divisor) if text.model_type == "hyperclovax" else 1.0 / float(divisor)
    return LogitTransform(scale, getattr(text, "final_logit_softcapping", None))
