"""A layer's own forward over the segments of a packed row, and its outputs back in their places.

A keyword of the trunk's forward, `row_segments`, is passed down by transformers to every layer.
Where a layer with a state gets it, its forward becomes this one; without it, nothing changes, so
that generation and plain batches are the model's own. Recomputation under activation checkpointing
has the same keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.recurrent.finding import cache_parameter, continues
from memlint_runtime.recurrent.segments import RowPlan
from memlint_runtime.recurrent.states import HandedStates, States

__all__ = ["SEGMENTS", "RowSegments", "SegmentedForward", "watch"]

SEGMENTS = "row_segments"
_CONTINUED = "_memlint_continues_its_state"

Kept = dict[Any, tuple[Tensor, ...]]


@dataclass(eq=False)
class RowSegments:
    """The segments of one forward pass, and of its recomputation.

    plan: makes the plan for layers that continue from a state, and for those that do not.
    outside: states (or, of layers that take none, inputs) of an outside prefix, by layer.
    kept: where layers leave theirs of the row's first segment, if wanted. reached: the layers that
    came by.
    """

    plan: Callable[[bool], RowPlan]
    outside: Kept | None = None
    kept: Kept | None = None
    reached: set[nn.Module] = field(default_factory=set)
    _plans: dict[tuple[bool, torch.device], RowPlan] = field(default_factory=dict)

    def plan_for(self, continued: bool, device: torch.device) -> RowPlan:
        key = (continued, device)
        if key not in self._plans:
            self._plans[key] = self.plan(continued).to(device)
        return self._plans[key]


class SegmentedForward:
    """In the place of a layer's forward: over segments where there are some, else as it was.

    One may stand over another: packing and shared prompts each put theirs. kinds: the states that
    it has, once it has left some.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.own = vars(module).get("forward")
        self.cache = cache_parameter(module)
        self.kinds: tuple[tuple[str, int], ...] = ()
        self.__signature__ = inspect.signature(module.forward)

    @property
    def continued(self) -> bool:
        """True if parts begin with the state of what is before them, or are read from the row's
        first token on. The module holds it, so that a trial's answer outlives this object."""
        own = vars(self.module)
        if _CONTINUED not in own:
            own[_CONTINUED] = continues(self.module)
        found: bool = own[_CONTINUED]
        return found

    @continued.setter
    def continued(self, value: bool) -> None:
        vars(self.module)[_CONTINUED] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        segments: RowSegments | None = kwargs.pop(SEGMENTS, None)
        if segments is None:
            return self.plainly(*args, **kwargs)
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        segments.reached.add(self.module)
        return self.over(hidden, segments)

    def plainly(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's own forward."""
        if self.own is not None:
            return self.own(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def over(self, hidden_BSD: Tensor, segments: RowSegments) -> Tensor:
        """The layer's outputs `[B, S, D]`; zero for tokens that are in no segment."""
        plan = segments.plan_for(self.continued, hidden_BSD.device)
        flat = hidden_BSD.flatten(0, 1)
        parts = [flat, flat.new_zeros(1, flat.shape[1])]
        left: list[States] = []
        if segments.outside is not None:
            outside = segments.outside[self.module]
            if self.continued:
                left.append(dict(zip(self.kinds, outside, strict=True)))
            else:
                parts.append(outside[0])
        readable = torch.cat(parts)
        outputs = []
        for batch in plan.batches:
            given: States = {}
            if batch.after is not None:
                given = {k: torch.cat([one[k] for one in left])[batch.after] for k in self.kinds}
            tokens = readable[batch.index]
            # Without a state before or behind, layers have faster ways.
            cache = HandedStates(given) if given or batch.leaves else None
            assert self.cache is not None
            outputs.append(self.plainly(hidden_states=tokens, **{self.cache: cache}).flatten(0, 1))
            if batch.leaves and cache is not None:
                left.append(cache.left)
                self.kinds = tuple(cache.left)
        if segments.kept is not None and self.module not in segments.kept:
            segments.kept[self.module] = tuple(left[0].values()) if self.continued else (flat,)
        outputs.append(outputs[0].new_zeros(1, outputs[0].shape[1]))
        together = torch.cat(outputs)[plan.source]
        return together.view(*hidden_BSD.shape[:2], -1)


def watch(modules: Iterable[nn.Module]) -> None:
    """From now on these layers run over segments where they are given some."""
    for module in modules:
        if not isinstance(vars(module).get("forward"), SegmentedForward):
            vars(module)["forward"] = SegmentedForward(module)
