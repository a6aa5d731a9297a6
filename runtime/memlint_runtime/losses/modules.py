"""Losses as `nn.Module`s, with torch's names for their arguments.

    loss = LinearCrossEntropyLoss(label_smoothing=0.1)
    loss(hidden, lm_head.weight, labels).backward()

What: `LinearCrossEntropyLoss` is called as `torch.nn.functional.linear_cross_entropy` is, and,
after `set_model_output(model)`, as a training recipe of torchtune calls its loss: `loss(hidden,
labels)`. torchtune's recipes since 0.7 make that call themselves; in a recipe of 0.6 it is one line
after the loss is made. Cost: see `statistics`.

Shapes: T tokens (any leading shape is accepted), D hidden size, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to, patches_of
from memlint_runtime.losses.checks import (
    check_class_weight,
    check_ignore_index,
    check_penalties,
    check_reduction,
    check_targets,
    check_workspace,
)
from memlint_runtime.losses.cross_entropy import cross_entropy
from memlint_runtime.losses.output_head import PATCH_MARK, check_head, read_head
from memlint_runtime.losses.tile_ops import LogitTransform

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(nn.Module):
    """Cross entropy of `softmax(input @ linear_weight.T + linear_bias)` without the logits.

    Args:
        weight: a weight `[V]` of each class, as in `torch.nn.CrossEntropyLoss`.
        ignore_index: target that does not count.
        reduction: "mean" over what counts, "sum" or "none".
        label_smoothing: share of the target distribution that is uniform.
        z_loss: weight of the squared log-sum-exp.
        softcap, logit_scale, workspace_bytes: as in `token_logprobs`.

    Raises ValueError for `weight` together with `label_smoothing`, for options out of their range,
    and, when it is called, for a `weight` of another length than the vocabulary's.
    """

    weight: Tensor | None

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        softcap: float | None = None,
        logit_scale: float = 1.0,
        workspace_bytes: int | None = None,
    ) -> None:
        super().__init__()
        check_penalties(label_smoothing, z_loss)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        check_workspace(workspace_bytes)
        LogitTransform(logit_scale, softcap)  # raises for what gives no distribution
        if weight is not None and label_smoothing:
            raise ValueError(
                "weight and label_smoothing do not go together here: smoothing would need the "
                "weighted sum of all logits. Leave one out"
            )
        self.register_buffer("weight", weight, persistent=False)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.softcap = softcap
        self.logit_scale = logit_scale
        self.workspace_bytes = workspace_bytes
        # Not a submodule: it is the model's.
        self.__dict__["_head"] = None
        # torchtune's recipes ask for its interface by isinstance; it is imported where they run.
        interface = getattr(sys.modules.get("torchtune.modules.loss"), "SFTLoss", None)
        if interface is not None:
            interface.register(type(self))

    def set_model_output(self, model: Any) -> None:
        """Take the model's output layer, and let the model return hidden states.

        model: one of torchtune's, which has its head in `output`. It leaves that out by
            `skip_output_layer`, or, in versions without, by a head that returns what it is given,
            until `memlint_runtime.undo(model)`.
        Raises ValueError for a model without, and for a head that cannot be tiled.
        """
        output = getattr(model, "output", None)
        head = getattr(output, "tied_module", output)
        # A tied head multiplies by the embedding, through a layer without a weight.
        caller = output if head is output else getattr(output, "linear", None)
        skips = hasattr(model, "skip_output_layer")
        # torchtune's models up to 0.6.
        older = hasattr(model, "num_output_chunks") and hasattr(model, "chunked_output")
        if not isinstance(head, nn.Module) or not (skips or older):
            raise ValueError(
                f"set_model_output takes a model of torchtune's, with `output` and "
                f"`skip_output_layer` or `num_output_chunks`, got {type(model).__name__}: pass "
                f"linear_weight to the loss instead"
            )
        if type(head) is not nn.Embedding:  # which a tied head multiplies by as it is
            check_head(head)
        self.__dict__["_head"] = head
        if any(patch.what == _WITHOUT_OUTPUT for patch in patches_of(model)):
            return
        patch = Patch(model, _WITHOUT_OUTPUT)
        if skips:
            patch.replace(model, "skip_output_layer", True)
            return
        identity = bound_to(caller, "forward", _returning_its_input)
        setattr(identity.__func__, PATCH_MARK, True)
        patch.replace(caller, "forward", identity)
        patch.replace(model, "num_output_chunks", 0)

    # -- what torchtune asks of a loss beside its value ----------------------------------------

    def apply_compile_strategy(self, *args: Any, **kwargs: Any) -> LinearCrossEntropyLoss:
        """Itself: its tiles are kernels already."""
        return self

    @property
    def tp_requires_loss_parallel_ctx_manager(self) -> bool:
        return False

    def patch_tp_plan(self, tp_plan: Any) -> Any:
        return tp_plan

    def forward(
        self,
        input: Tensor,  # noqa: A002 (torch's name)
        linear_weight: Tensor,
        target: Tensor | None = None,
        *,
        linear_bias: Tensor | None = None,
    ) -> Tensor:
        """The loss, a scalar (`[T]` with reduction "none").

        Args:
            input: hidden states `[T, D]`, or `[..., D]`.
            linear_weight: the head `[V, D]`; after `set_model_output` the target stands here.
            target: class of each hidden state, `[T]` or `[...]`, already shifted.
            linear_bias: `[V]`.
        """
        head: dict[str, Any] = {"linear_bias": linear_bias}
        if target is None:
            owner = self.__dict__["_head"]
            if owner is None:
                raise ValueError(
                    "the loss takes (input, linear_weight, target); for (input, target) call "
                    "set_model_output(model) first"
                )
            target = linear_weight
            tensors = read_head(owner)
            linear_weight = tensors.weight
            # torchtune's models return float32, whatever they compute in: back without a loss.
            if not torch.is_autocast_enabled(input.device.type):
                input = input.to(linear_weight.dtype)  # noqa: A001
            head = tensors.options(input)
        weights = None
        if self.weight is not None:
            vocabulary = int(linear_weight.shape[0])
            check_targets(target)
            check_class_weight(self.weight, vocabulary)
            # Targets out of range are the loss's to refuse.
            weights = self.weight.float()[target.clamp(0, vocabulary - 1)]
        return cross_entropy(
            input,
            linear_weight,
            target,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            token_weights=weights,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            softcap=self.softcap,
            logit_scale=self.logit_scale,
            workspace_bytes=self.workspace_bytes,
            **head,
        )

    def extra_repr(self) -> str:
        shown = ("ignore_index", "reduction", "label_smoothing", "z_loss", "softcap")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)


# What its patch says of a model.
_WITHOUT_OUTPUT = "the model leaves its output layer to the loss"


def _returning_its_input(own: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, hidden: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return hidden

    return forward
