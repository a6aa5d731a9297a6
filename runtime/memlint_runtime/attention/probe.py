"""One look at a model before it is trusted: two short documents, alone and in one row.

What no attribute of a model reports (positions counted by index or from padding, layers that mix
tokens otherwise than by attention, keywords that do not reach the attention) shows in the numbers.
Three forward passes of a few tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.integrations.modes import has_whole_parameters, in_mode

__all__ = ["hidden_states_alone", "reason_by_numbers"]

_LENGTHS = (5, 4)
# Of a token's hidden state, relative; a few tokens may be off by more where an expert was chosen
# by a hair.
_TOLERATED = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}


def hidden_states_alone(model: Any) -> Tensor | None:
    """Hidden states `[T, D]` of the documents one by one; None where the model cannot be run."""
    if not has_whole_parameters(model):
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
    except (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError)):
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        return f"its forward fails on them ({str(error).strip().splitlines()[0]})"
    if packed.shape != alone.shape:
        return "its hidden states have another shape"
    size_T = alone.float().norm(dim=-1).clamp(min=1e-9)  # padding may be embedded as zeros
    error_T = (packed.float() - alone.float()).norm(dim=-1) / size_T
    # The first document stands where it stood alone; the second shows what is mixed.
    worst = float(error_T[_LENGTHS[0] :].median())
    if worst <= _TOLERATED.get(alone.dtype, 0.1):
        return None
    return f"its hidden states differ by {worst:.1%} when documents share a row"


def _documents(model: Any) -> list[Tensor]:
    device = next(model.parameters()).device
    vocabulary = model.config.get_text_config().vocab_size
    # Away from the first ids, which tend to be special.
    ids = (torch.arange(sum(_LENGTHS), device=device) * 7 + vocabulary // 2) % vocabulary
    return list(ids.split(_LENGTHS))


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
        with in_mode(model, training=False), torch.autocast(device, enabled=False):
            output = model(**inputs, use_cache=False)
    finally:
        handle.remove()
    hidden: Tensor = seen[-1] if seen else output.logits[0]
    return hidden
