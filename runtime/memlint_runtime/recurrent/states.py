"""A cache that hands states over with their gradient: what a layer is given, and what it leaves.

Transformers' own cache copies states into buffers, for generation. This one keeps tensors as they
come, so that what follows a state sends its gradient back through it.

R rows, C channels, K the convolution's kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["HandedStates", "States"]

# By kind ("conv", "recurrent") and number, `[R, ...]`.
States = dict[tuple[str, int], Tensor]


class _Layers:
    """The layers of such a cache: whichever is asked for has the states of the one that runs."""

    record_past = True  # see `HandedStates.is_recording_past`

    def __init__(self, given: States) -> None:
        self.conv_states = {number: given[kind, number] for kind, number in given if kind == "conv"}
        self.recurrent_states = {
            number: given[kind, number] for kind, number in given if kind == "recurrent"
        }

    def __getitem__(self, layer_idx: int) -> _Layers:
        return self


class HandedStates:
    """The cache of one call of one layer. given: the states that its rows begin with, or none at
    all. left: the states after their last tokens."""

    def __init__(self, given: States) -> None:
        self.given = given
        self.left: States = {}

    @property
    def layers(self) -> _Layers:
        """The same states as layers of transformers 5.17 read them: of a layer, by number."""
        return _Layers(self.given)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        return self.given.get(("conv", state_idx))

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        return self.given.get(("recurrent", state_idx))

    def has_previous_state(
        self, layer_idx: int | None = None, state_idx: int | None = None
    ) -> bool:
        return bool(self.given)

    def is_recording_past(self, layer_idx: int) -> bool:
        """Yes: a layer then takes the path that differentiates, even for a single token."""
        return True

    def update_conv_state(
        self,
        conv_states: Tensor,
        layer_idx: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **others: Any,
    ) -> Tensor:
        """The tokens `[R, C, S]` behind those before them that the convolution sees."""
        if conv_kernel_size is None:
            raise ValueError(f"layer {layer_idx} does not say how far its convolution sees")
        before = self.given.get(("conv", state_idx))
        whole = conv_states if before is None else torch.cat([before, conv_states], -1)
        missing = max(conv_kernel_size - whole.shape[-1], 0)
        seen = functional.pad(whole, (missing, 0)) if missing else whole
        self.left["conv", state_idx] = seen[..., -conv_kernel_size:]
        return whole

    def update_recurrent_state(
        self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **others: Any
    ) -> Tensor:
        self.left["recurrent", state_idx] = recurrent_states
        return recurrent_states
