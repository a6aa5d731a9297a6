"""Fused cross entropies of liger-kernel and of PyTorch as backends.

Liger's cross entropies write the gradient over their input in place, behind autograd's back. A
hook that copies saved tensors away (activation offloading) may copy before or after that, so a
combination of the two can train on overwritten values; it is refused here.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Literal

import torch
from torch import Tensor, nn

from memlint_runtime.losses.output_head import HeadTensors
from memlint_runtime.losses.tile_ops import LogitTransform

Backend = Literal["tiles", "torch", "liger"]


def check_backend(backend: Any, *, label_smoothing: float, z_loss: float, dynamic: bool) -> None:
    """Raise ValueError unless the backend is there and computes what is asked."""
    if backend == "tiles":
        return
    if backend not in ("torch", "liger"):
        raise ValueError(f"backend is 'tiles', 'torch' or 'liger', got {backend!r}")
    if backend == "torch":
        if not hasattr(nn, "LinearCrossEntropyOptions"):
            raise ValueError(
                f"backend='torch' needs torch 2.13 or later, this is {torch.__version__}: leave "
                "backend='tiles'"
            )
        if label_smoothing or z_loss or dynamic:
            raise ValueError(
                "backend='torch' computes plain cross entropy alone: leave label_smoothing, z_loss "
                "and dynamic out, or leave backend='tiles'"
            )
        return
    if importlib.util.find_spec("liger_kernel") is None:
        raise ValueError(
            "backend='liger' needs liger-kernel, which is not installed: pip install liger-kernel, "
            "or leave backend='tiles', which needs nothing and takes no more memory"
        )
    # Triton's interpreter runs kernels on the CPU, for tests.
    if not torch.accelerator.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            "backend='liger' runs Triton kernels, and this machine has no GPU: leave "
            "backend='tiles', which runs anywhere"
        )


def refuse_saved_tensor_hooks() -> None:
    """Raise ValueError while hooks on saved tensors are active: Liger writes in place."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise ValueError(
            "Liger's loss writes over tensors that activation offloading is copying, so training "
            "could use overwritten values: use backend='tiles', which does not, or turn "
            "activation offloading off"
        )


def _by_torch(
    hidden: Tensor, head: HeadTensors, target: Tensor, transform: LogitTransform
) -> Tensor:
    if transform.softcap is not None:
        raise ValueError(
            "backend='torch' knows no soft cap, which this model has: leave backend='tiles'"
        )
    counted = target >= 0
    # Chunks of tokens that are ignored would cost as much as others.
    states, weight, bias = hidden[counted], head.weight, head.bias
    dtype = torch.promote_types(states.dtype, weight.dtype)
    if torch.is_autocast_enabled(states.device.type):
        dtype = torch.get_autocast_dtype(states.device.type)
    total: Tensor = nn.functional.linear_cross_entropy(
        states.to(dtype),
        weight.to(dtype),
        target[counted],
        linear_bias=None if bias is None else bias.to(dtype),
        reduction="sum",
        options=nn.LinearCrossEntropyOptions(allow_retain_graph=True),
    )
    return total


def summed_cross_entropy(
    backend: Backend,
    hidden: Tensor,
    head: HeadTensors,
    target: Tensor,
    transform: LogitTransform,
    *,
    label_smoothing: float,
    z_loss: float,
    dynamic: bool,
) -> Tensor:
    """The sum of the tokens' losses, a scalar, by the backend's fused linear cross entropy."""
    if head.low_rank is not None:
        raise ValueError(
            f"backend={backend!r} cannot fold a LoRA head into its tiles: use backend='tiles', or "
            "leave lm_head out of target_modules"
        )
    if transform.scale != 1.0:
        hidden = hidden * transform.scale
    if backend == "torch":
        return _by_torch(hidden, head, target, transform)
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    refuse_saved_tensor_hooks()
    options: dict[str, Any] = {"use_token_scaling": True} if dynamic else {}
    result = liger_fused_linear_cross_entropy(
        hidden.flatten(0, -2),
        head.weight,
        target.flatten(),
        bias=head.bias,
        ignore_index=-100,
        lse_square_scale=z_loss,
        label_smoothing=label_smoothing,
        reduction="sum",
        softcap=transform.softcap,
        **options,
    )
    total: Tensor = result[0] if isinstance(result, tuple) else result
    return total
