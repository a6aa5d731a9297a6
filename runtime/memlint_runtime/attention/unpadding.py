"""Padding taken out of a batch before the trunk of a model, and put back behind it.

What: `[B, S]` inputs with a padding mask become one row of T tokens; hidden states of that row
become `[B, S, D]` again, zero where there was padding.
Why: trainers that insist on padded batches (DPO, rewards) then pay for padding in the head alone.
Cost: two copies of the embeddings or ids, one of the last hidden states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class PaddedShape(NamedTuple):
    """Where T tokens came from: slots ``indices`` ``[T]`` of ``rows * slots``."""

    indices: Tensor
    rows: int
    slots: int


def unpad(tensor: Tensor, shape: PaddedShape) -> Tensor:
    """``[B, S, ...] -> [1, T, ...]``."""
    return tensor.flatten(0, 1).index_select(0, shape.indices).unsqueeze(0)


def repad(tensor: Tensor, shape: PaddedShape) -> Tensor:
    """``[1, T, ...] -> [B, S, ...]``, zeros in the slots that held padding."""
    flat = tensor.new_zeros(shape.rows * shape.slots, *tensor.shape[2:])
    flat = flat.index_copy(0, shape.indices, tensor.squeeze(0))
    return torch.unflatten(flat, 0, (shape.rows, shape.slots))


def repad_output(output: Any, shape: PaddedShape) -> Any:
    """The hidden states in a model's output, padded again."""
    if isinstance(output, tuple):
        return (repad(output[0], shape), *output[1:])
    output.last_hidden_state = repad(output.last_hidden_state, shape)
    if getattr(output, "hidden_states", None) is not None:
        output.hidden_states = tuple(repad(states, shape) for states in output.hidden_states)
    return output
