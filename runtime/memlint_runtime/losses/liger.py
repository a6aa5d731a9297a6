"""liger-kernel's fused cross entropy as a backend, and its conflict with activation offloading.

Liger's cross entropies write the gradient over their input in place, behind autograd's back. A
hook that copies saved tensors away (activation offloading) may copy before or after that, so a
combination of the two can train on overwritten values; it is refused here.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.losses.output_head import HeadTensors
from memlint_runtime.losses.tile_ops import LogitTransform


def check_available() -> None:
    """Raise ValueError unless liger-kernel is installed, and there is a device for its kernels."""
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


def summed_cross_entropy(
    hidden: Tensor,
    head: HeadTensors,
    target: Tensor,
    transform: LogitTransform,
    *,
    label_smoothing: float,
    z_loss: float,
    dynamic: bool,
) -> Tensor:
    """The sum of the tokens' losses, a scalar, by liger-kernel's fused linear cross entropy."""
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    refuse_saved_tensor_hooks()
    if head.low_rank is not None:
        raise ValueError(
            "backend='liger' cannot fold a LoRA head into its tiles: use backend='tiles', or "
            "leave lm_head out of target_modules"
        )
    if transform.scale != 1.0:
        hidden = hidden * transform.scale
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
