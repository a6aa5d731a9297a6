"""Which parts of a model come and go: its blocks, its embedding and its head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from memlint_runtime.streaming.slots import Slot

__all__ = ["LISTS", "Ends", "blocks_of", "shared_parameters"]

LISTS = (nn.ModuleList, nn.Sequential)


class Ends:
    """The embedding and the head of a model, as far as they are frozen and plain."""

    def __init__(self, model: Any, left_out: set[int], *, embedding: bool, head: bool) -> None:
        self.embedding: nn.Module | None = None
        self.head: nn.Module | None = None
        self.rows: Slot | None = None
        found = _plain(model, "get_input_embeddings", nn.Embedding, left_out)
        top = _plain(model, "get_output_embeddings", nn.Linear, left_out)
        tied = found is not None and top is not None and found.weight is top.weight
        if tied and not (embedding and head):
            found = top = None
        self.embedding = found if embedding else None
        self.head = top if head else None
        self.tied = tied and found is not None
        self.parameters = {id(end.weight) for end in (self.embedding, self.head) if end is not None}


def _plain(model: Any, getter: str, kind: type, left_out: set[int]) -> Any:
    try:
        module = getattr(model, getter)()
    except (AttributeError, NotImplementedError):
        return None
    module = getattr(module, "base_layer", module)
    weight = vars(module).get("_parameters", {}).get("weight") if module is not None else None
    if not isinstance(module, kind) or weight is None or weight.requires_grad:
        return None
    if is_traceable_wrapper_subclass(weight) or hasattr(weight, "quant_state"):
        return None
    if not (weight.is_floating_point() and weight.is_contiguous()) or id(weight) in left_out:
        return None
    if weight.device.type == "meta" or getattr(module, "max_norm", None) is not None:
        return None
    return module


def blocks_of(root: nn.Module) -> list[nn.Module]:
    """The members of the outermost lists of modules; of `root`, where it is a list without any."""
    found = _members(root)
    return [*root] if not found and isinstance(root, LISTS) else found


def _members(root: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = []
    for child in root.children():
        if isinstance(child, LISTS) and len(child) > 1:
            found += child
        else:
            found += _members(child)
    return found


def shared_parameters(root: nn.Module, blocks: Sequence[nn.Module]) -> set[int]:
    """Identities of parameters that a block has in common with another part of the model."""
    inside: dict[int, int] = {}
    for index, block in enumerate(blocks):
        for part in block.modules():
            inside[id(part)] = index
    owners: dict[int, set[int]] = {}
    for module in root.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), set()).add(inside.get(id(module), -1))
    twice = [module for module in blocks if sum(module is other for other in blocks) > 1]
    shared = {identity for identity, places in owners.items() if len(places) > 1}
    return shared.union(*({id(p) for p in module.parameters()} for module in twice))
