"""Where a model's weights may be before they stream, and how a weight or an input is moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from memlint_runtime.streaming.slots import Slot


def expect_unplaced(model: nn.Module) -> None:
    """Raises ValueError where accelerate moves weights itself."""
    for module in model.modules():
        if getattr(getattr(module, "_hf_hook", None), "offload", False):
            raise ValueError(
                "accelerate offloads this model's weights (device_map): load it without, or on "
                "one device, then stream"
            )


def expect_on_host(slots: Sequence[Slot]) -> None:
    """Raises ValueError where a weight is on a device already."""
    for slot in slots:
        if slot.home.device.type != "cpu":
            raise ValueError(
                f"store='files' leaves weights in memory-mapped files, but {slot.name!r} of a "
                f"{type(slot.module).__name__} is on {slot.home.device}: load the model with "
                "load_streamed(path, store='files'), or take store='host'"
            )


def convert(slot: Slot, function: Callable[[Tensor], Tensor]) -> bool:
    """Give a slot the type that `function` gives; returns whether that is another."""
    probe = function(torch.empty(0, dtype=slot.home.dtype))
    if probe.device.type == "meta":
        raise RuntimeError("streamed weights cannot be emptied: undo() the streaming before")
    if probe.dtype == slot.home.dtype:
        return False
    slot.put(slot.home.to(probe.dtype))
    return True


def on_device(inputs: Any, device: torch.device) -> Any:
    """The inputs on `device`, or None where they are."""

    def move(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, Tensor) else leaf

    if all(leaf.device == device for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)):
        return None
    return tree_map(move, inputs)
