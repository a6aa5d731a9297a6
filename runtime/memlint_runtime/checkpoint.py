"""Activation checkpointing that keeps the layers' inputs only, on the host if asked.

Of a checkpointed layer one tensor stays, its input: tokens x hidden size. At 32k tokens of a
Llama-3.1-8B that is 256 MiB a layer, 8 GiB in all, and one tensor a layer is what the bus carries
easily while the layer computes: offloaded, these 8 GiB leave the GPU at next to no cost in time.
Cost of checkpointing itself: one more forward pass, about a third more compute.

The setting lives on the model: whoever switches checkpointing off and on again, as TRL's trainers
do around generation, gets this one back, not the library's default without offload. It is set
through the layers' own flag and function, which every supported transformers version has under
the same names, whatever it calls the option.

Source: transformers' gradient checkpointing layers; PyTorch's non-reentrant checkpoint.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from memlint_runtime.integrations import require_model
from memlint_runtime.integrations.patching import list_at, take_off
from memlint_runtime.offload import ActivationOffload, offload_activations
from memlint_runtime.quantities import whole_number

__all__ = ["ActivationCheckpointing", "checkpoint_activations"]

_ENABLERS = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
_ATTENTION = (
    "scaled_dot_product", "flash_attn", "flash_attention", "flex_attention", "varlen_attn",
)  # fmt: skip


def checkpoint_activations(
    model: nn.Module,
    *,
    offload: bool | ActivationOffload = False,
    every: int = 1,
    keep_attention: bool = False,
) -> ActivationCheckpointing:
    """Checkpoint the layers of a transformers model; the setting outlives being switched off.

    Args:
        model: a `PreTrainedModel`, or a wrapper around one such as PEFT's.
        offload: send the layers' inputs to host memory; True, or what `offload_activations`
            made, to choose its options.
        every: checkpoint each `every`-th layer; the others keep all of their activations.
        keep_attention: keep attention's outputs on the device instead of computing them again:
            tokens x hidden size a layer for the quadratic part of the second forward pass.

    Returns:
        What was set; `remove()`, `undo(model)` or the end of a `with` block undoes it.

    Raises:
        ValueError: if the model has no layers that can be checkpointed, or `every` is no whole
            number of 1 or more, or `offload` is something else, or attention is to be kept but the
            model computes it in the "eager" way, in parts.
        TypeError: if `model` is none.
    """
    require_model(model)
    every = whole_number("every", every, 1, "layer")
    if offload and offload is not True and not hasattr(offload, "__enter__"):
        raise ValueError(
            f"offload is True, False or what offload_activations() returns, got {offload!r}"
        )
    inner = _pretrained(model)
    layers = [m for m in inner.modules() if isinstance(m, GradientCheckpointingLayer)]
    if not inner.supports_gradient_checkpointing or not layers:
        raise ValueError(
            f"{type(inner).__name__} has no layers that support activation checkpointing; wrap "
            f"its blocks with torch.utils.checkpoint.checkpoint(..., use_reentrant=False) instead"
        )
    if keep_attention and getattr(inner.config, "_attn_implementation", None) == "eager":
        raise ValueError(
            "keep_attention needs attention computed by one operation, but the model was loaded "
            'with attn_implementation="eager"; load it with "sdpa"'
        )
    if offload is True:
        offload = offload_activations()
    setting = ActivationCheckpointing(inner, offload or None, every, keep_attention)
    setting.enable()
    for name in _ENABLERS:
        if hasattr(inner, name):
            setattr(inner, name, setting.enable)
    list_at(inner, setting)
    return setting


@dataclass
class ActivationCheckpointing:
    """How a model's layers are checkpointed. A plain object, so models with it can be copied."""

    model: PreTrainedModel
    offload: ActivationOffload | None
    every: int
    keep_attention: bool
    what = "the model's layers are checkpointed"

    def enable(self, *ignored: Any, **also_ignored: Any) -> None:
        """Switch on as set, whatever options the caller passes: they are those of the library."""
        for module, is_on in self._modules():
            module._gradient_checkpointing_func = self.run
            module.gradient_checkpointing = is_on

    def remove(self) -> None:
        """Switch off, and give the model its own methods back."""
        for module, _ in self._modules():
            module.gradient_checkpointing = False
            module._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=False)
        for name in _ENABLERS:
            self.model.__dict__.pop(name, None)
        take_off(self.model, self)

    def undo(self) -> None:
        """The same, as every change of a model has it."""
        self.remove()

    def __enter__(self) -> ActivationCheckpointing:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def run(self, layer: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Compute `layer(*inputs)`, keeping nothing but `inputs` for backward."""
        options.pop("use_reentrant", None)
        if self.keep_attention:
            options["context_fn"] = _keep_attention_contexts
        # Only the saving of the inputs happens under these hooks; inside the checkpoint its own
        # are in force.
        with self.offload or contextlib.nullcontext():
            return checkpoint(layer, *inputs, use_reentrant=False, **options)

    def _modules(self) -> Iterator[tuple[Any, bool]]:
        layer_index = 0
        for module in self.model.modules():
            if isinstance(module, GradientCheckpointingLayer):
                yield module, layer_index % self.every == 0
                layer_index += 1
            elif hasattr(module, "gradient_checkpointing"):
                yield module, True


def _pretrained(model: nn.Module) -> PreTrainedModel:
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return module
    raise ValueError(
        f"checkpoint_activations needs a transformers model, got {type(model).__name__}; for "
        f"other models use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
    )


def _keep_attention_contexts() -> Any:
    return create_selective_checkpoint_contexts(_attention_policy)  # type: ignore[no-untyped-call]


def _attention_policy(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    name = str(operation)
    if any(part in name for part in _ATTENTION) and "backward" not in name:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE
