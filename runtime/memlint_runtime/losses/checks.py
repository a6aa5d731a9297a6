"""What the losses' options may be, checked where they are chosen and where they are used.

What: torch's limits on the reduction, label smoothing, the class weight and the ignored index; a
z-loss that pulls the log-sum-exp to zero; a workspace of at least a byte; targets that are indices.
Why: a comparison with another word, NaN or None is false, so a mistake would train on another loss
without a word.
Cost: comparisons of numbers; constants in a compiled graph.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from memlint_runtime.quantities import whole_number
from memlint_runtime.single_backward import within_transform

__all__ = [
    "check_class_weight", "check_ignore_index", "check_ignored", "check_penalties",
    "check_reduction", "check_targets", "check_workspace", "is_readable",
]  # fmt: skip

_REDUCTIONS = ("mean", "sum", "none")


def check_penalties(label_smoothing: Any, z_loss: Any) -> None:
    """Raise ValueError unless smoothing is a share, from 0 to 1, and the z-loss's weight 0 or more.

    NaN is neither.
    """
    if not _lies_within(label_smoothing, 0.0, 1.0):
        raise ValueError(
            f"label_smoothing is a share from 0 to 1, got {label_smoothing!r}; 0 is without"
        )
    if not _lies_within(z_loss, 0.0, math.inf) or z_loss == math.inf:
        raise ValueError(f"z_loss is a finite weight of 0 or more, got {z_loss!r}; 0 is without")


def check_reduction(reduction: Any) -> None:
    """Raise ValueError unless it is one of torch's three."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")


def check_ignore_index(ignore_index: Any) -> None:
    """Raise ValueError unless a target can equal it: a whole number, of any sign."""
    try:
        fits = int(ignore_index) == ignore_index
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(
            f"ignore_index is a whole number, the target that does not count, got "
            f"{ignore_index!r}; -100 is torch's"
        )


def check_ignored(target: Tensor, ignore_index: int) -> None:
    """Raise ValueError for a negative target that is not `ignore_index`; on a GPU an assertion
    fails later, so that nothing waits for it. In a compiled graph such a target is ignored."""
    if not is_readable(target):
        return
    fits = ((target >= 0) | (target == ignore_index)).all()
    said = f"targets are token ids or ignore_index, {ignore_index}"
    if target.is_cuda:
        torch._assert_async(fits, f"{said}; another one is negative")
    elif target.is_cpu and not fits:
        raise ValueError(f"{said}, got {int(target[(target != ignore_index)].min())}")


def is_readable(tensor: Tensor) -> bool:
    """True if values can be asked for: not of a fake tensor, nor in a compiled graph, nor within a
    transform of `torch.func`."""
    hidden = torch.compiler.is_compiling() or isinstance(tensor, FakeTensor) or within_transform()
    return not hidden


def check_class_weight(weight: Tensor, vocabulary: int) -> None:
    """Raise ValueError unless there is one weight of each class, `[V]`."""
    if weight.shape != (vocabulary,):
        raise ValueError(
            f"weight holds one number for each of the head's {vocabulary} classes, "
            f"[{vocabulary}], got {list(weight.shape)}"
        )


def check_targets(target: Any, name: str = "targets") -> None:
    """Raise ValueError unless it is a tensor of whole numbers."""
    if not isinstance(target, Tensor):
        raise ValueError(f"{name} are a tensor of token ids, got {type(target).__name__}")
    if target.is_floating_point() or target.is_complex():
        raise ValueError(f"{name} are token ids, whole numbers: got {target.dtype}; call .long()")


def check_workspace(workspace_bytes: Any) -> None:
    """Raise ValueError unless it is None, for the default, or a number of bytes."""
    if workspace_bytes is not None:
        whole_number("workspace_bytes", workspace_bytes, 1)


def _lies_within(value: Any, least: float, most: float) -> bool:
    try:
        return bool(least <= value <= most)
    except (TypeError, ValueError, RuntimeError):
        return False
