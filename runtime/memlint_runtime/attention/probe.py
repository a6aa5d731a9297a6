"""One look at a model before it is trusted: two short documents, alone and in one row.

What no attribute of a model reports (positions counted by index or from padding, layers that mix
tokens otherwise than by attention, keywords that do not reach the attention) shows in the numbers.
Three forward passes of a few tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.integrations import modes

__all__ = ["hidden_states_alone", "reason_by_numbers"]

_LENGTHS = (5, 4)


def hidden_states_alone(model: Any) -> Tensor | None:
    """Hidden states `[T, D]` of the documents one by one; None where the model cannot be run."""
    if not modes.has_whole_parameters(model):
        return None
    documents = _documents(model)
    try:
        return torch.cat([_run(model, input_ids=document[None]) for document in documents])
    except (RuntimeError, ValueError, TypeError, AttributeError):
        # A model that wants more than tokens, or a device that is full: nothing is known.
        return None


def reason_by_numbers(model: Any, alone: Tensor | None) -> str | None:
    """Why the model, its attention replaced by now, does not give what it gave before, or None."""
    if alone is None:
        return None
    documents = _documents(model)
    positions = torch.cat(
        [torch.arange(len(document), device=document.device) for document in documents]
    )
    try:
        packed = _run(model, input_ids=torch.cat(documents)[None], position_ids=positions[None])
    except modes.NO_REASON:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        return f"its forward fails on them ({str(error).strip().splitlines()[0]})"
    if packed.shape != alone.shape:
        return "its hidden states have another shape"
    # The first document stands where it stood alone; the second shows what is mixed.
    worst = float(modes.relative_errors(packed, alone)[_LENGTHS[0] :].median())
    if worst <= modes.tolerated(alone.dtype):
        return None
    return f"its hidden states differ by {worst:.1%} when documents share a row"


def _documents(model: Any) -> list[Tensor]:
    return list(torch.split(modes.plain_ids(model, sum(_LENGTHS)), list(_LENGTHS)))


@torch.no_grad()
def _run(model: Any, **inputs: Tensor) -> Tensor:
    """Hidden states of the trunk while the whole model runs, as it does in training.

    Some models call the layers in their trunk by themselves (OPT), which a call of the trunk would
    not show. Logits where the trunk is passed by, or has no hidden states to show.
    """
    seen: list[Tensor] = []

    def keep(_: nn.Module, args: Any, output: Any) -> None:
        hidden = getattr(output, "last_hidden_state", None)
        if isinstance(hidden, Tensor):
            seen.append(hidden[0])

    device = next(iter(inputs.values())).device.type
    handle = model.base_model.register_forward_hook(keep)
    try:
        with modes.in_mode(model, training=False), torch.autocast(device, enabled=False):
            output = model(**inputs, use_cache=False)
    finally:
        handle.remove()
    hidden: Tensor = seen[-1] if seen else output.logits[0]
    return hidden
