"""Losses as `nn.Module`s, with torch's names for their arguments.

    loss = LinearCrossEntropyLoss(label_smoothing=0.1)
    loss(hidden, lm_head.weight, labels).backward()

What: `LinearCrossEntropyLoss` is called as `torch.nn.functional.linear_cross_entropy` is, and,
after `set_model_output(model)`, as a training recipe of torchtune calls its loss: `loss(hidden,
labels)`. Cost: see `statistics`.

Shapes: T tokens (any leading shape is accepted), D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from memlint_runtime.losses.cross_entropy import cross_entropy
from memlint_runtime.losses.output_head import check_head, read_head

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(nn.Module):
    """Cross entropy of `softmax(input @ linear_weight.T + linear_bias)` without the logits.

    Args:
        weight: a weight `[V]` of each class, as in `torch.nn.CrossEntropyLoss`.
        ignore_index: target that does not count; so does every negative one.
        reduction: "mean" over what counts, "sum" or "none".
        label_smoothing: share of the target distribution that is uniform.
        z_loss: weight of the squared log-sum-exp.
        softcap, logit_scale, workspace_bytes: as in `token_logprobs`.

    Raises ValueError for `weight` together with `label_smoothing`.
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

    def set_model_output(self, model: Any) -> None:
        """Take the model's output layer, and let the model return hidden states.

        model: has its head in `output`, and leaves it out with `skip_output_layer` (torchtune's).
        Raises ValueError for a model without, and for a head that cannot be tiled.
        """
        output = getattr(model, "output", None)
        head = getattr(output, "tied_module", output)
        if not isinstance(head, nn.Module) or not hasattr(model, "skip_output_layer"):
            raise ValueError(
                f"set_model_output takes a model with `output` and `skip_output_layer`, got "
                f"{type(model).__name__}: pass linear_weight to the loss instead"
            )
        if type(head) is not nn.Embedding:  # which a tied head multiplies by as it is
            check_head(head)
        model.skip_output_layer = True
        self.__dict__["_head"] = head

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
        head: dict[str, Any] = {"bias": linear_bias}
        if target is None:
            owner = self.__dict__["_head"]
            if owner is None:
                raise ValueError(
                    "the loss takes (input, linear_weight, target); for (input, target) call "
                    "set_model_output(model) first"
                )
            target = linear_weight
            tensors = read_head(owner)
            linear_weight, head = tensors.weight, tensors.options(input)
        weights = None
        if self.weight is not None:
            weights = self.weight.float()[target.clamp(min=0)]
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
