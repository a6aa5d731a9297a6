"""What stands around an optimizer of any library and steps some of its parameters at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from memlint_runtime.integrations.modes import kind_of

__all__ = ["WrappedOptimizer", "require_optimizer"]


def require_optimizer(owner: Any) -> None:
    """Raise TypeError unless it steps parameter groups, as optimizers of any library do."""
    is_class = isinstance(owner, type)
    if is_class or not (hasattr(owner, "param_groups") and hasattr(owner, "step")):
        wanted = "an optimizer (as torch.optim.AdamW(model.parameters()))"
        raise TypeError(f"wants {wanted}, got {kind_of(owner)}")


def _of_wrapped(name: str) -> Any:
    """An attribute that is the wrapped optimizer's."""
    return property(
        lambda self: getattr(self.optimizer, name),
        lambda self, value: setattr(self.optimizer, name, value),
    )


class WrappedOptimizer(Optimizer):
    """Groups, state and defaults are the wrapped optimizer's, which either can load."""

    # Optimizer.__init__ is not called, which would make others.
    def __init__(self, optimizer: Optimizer) -> None:
        require_optimizer(optimizer)
        if isinstance(optimizer, WrappedOptimizer):
            raise ValueError(
                f"{type(self).__name__} wants an optimizer that is not wrapped, got it in "
                f"{type(optimizer).__name__}: use one of the two"
            )
        self.optimizer = optimizer
        self._places: dict[int, tuple[int, int]] = {}
        self._handles: list[Any] = []
        self._hooked: set[int] = set()
        self._nothing = nn.Parameter(torch.empty(0))
        self._idle: dict[str, Any] = {**optimizer.param_groups[0], "params": []}
        self._goes_by_place = hasattr(optimizer, "check_overrides")
        if self._goes_by_place and not getattr(optimizer, "initialized", True):
            # bitsandbytes finds options of modules while it sees all parameters.
            bitsandbytes: Any = optimizer
            bitsandbytes.check_overrides()
            bitsandbytes.to_gpu()
            bitsandbytes.initialized = True

    def _refuse_closures(self, why: str) -> None:
        closure = inspect.signature(type(self.optimizer).step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(
                f"{type(self.optimizer).__name__} evaluates the loss several times in each step, "
                f"which {why}; use it without {type(self).__name__}"
            )

    def _find_places(self) -> Iterator[Tensor]:
        """Note where each parameter is in the groups; yields those that were not noted before."""
        for group_index, group in enumerate(self.optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if id(parameter) in self._places:
                    continue
                hooks = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
                functions = (getattr(hook, "func", hook) for hook in hooks.values())
                for function in functions:
                    other = type(getattr(function, "__self__", None))
                    if issubclass(other, WrappedOptimizer):
                        raise ValueError(
                            f"another {other.__name__} steps these parameters already; call its "
                            "remove() first"
                        )
                self._places[id(parameter)] = (group_index, index)
                yield parameter

    def _hook(
        self, parameters: Iterable[Tensor], make: Callable[[Tensor], Callable[[Tensor], None]]
    ) -> list[Tensor]:
        """Hook what is trained and was not before, by what `make` returns; returns these."""
        new = [p for p in parameters if p.requires_grad and id(p) not in self._hooked]
        for parameter in new:
            self._hooked.add(id(parameter))
            register: Any = parameter.register_post_accumulate_grad_hook  # untyped in torch
            self._handles.append(register(make(parameter)))
        return new

    def _let_go(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooked.clear()
        self._places.clear()

    def _step_some(self, bucket: list[Tensor]) -> None:
        """One step of the wrapped optimizer in which only the `bucket` has gradients.

        It sees groups of these alone, or each call would look at all. bitsandbytes looks options
        up by place, and has to find each parameter in its own.
        """
        groups = self.optimizer.param_groups
        chosen: dict[int, list[Tensor]] = {}
        for parameter in bucket:
            place, index = self._places[id(parameter)]
            members = chosen.setdefault(place, [])
            if self._goes_by_place:
                members += [self._nothing] * (index + 1 - len(members))
                members[index] = parameter
            else:
                members.append(parameter)
        before = {place: groups[place].copy() for place in chosen}
        last = max(chosen) + 1
        try:
            for place, members in chosen.items():
                groups[place]["params"] = members
            self.optimizer.param_groups = (
                [groups[i] if i in chosen else self._idle for i in range(last)]
                if self._goes_by_place
                else [groups[place] for place in chosen]
            )
            self.optimizer.step()
        finally:
            for place, options in before.items():
                groups[place]["params"] = options["params"]
            self.optimizer.param_groups = groups
        counted = [
            name
            for place, options in before.items()
            for name, value in options.items()
            if groups[place].get(name) is not value and groups[place].get(name) != value
        ]
        if counted:
            raise ValueError(
                f"{type(self.optimizer).__name__} counts in its parameter groups "
                f"({', '.join(counted)}) and would count each bucket's step as one of all; "
                f"use it without {type(self).__name__}"
            )

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """As the wrapped optimizer's: either can load the other's."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state_dict)

    param_groups = _of_wrapped("param_groups")
    state = _of_wrapped("state")
    defaults = _of_wrapped("defaults")

    def __getattr__(self, name: str) -> Any:
        # What libraries look for on their own optimizers, as bitsandbytes' is_paged.
        if name in ("optimizer", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied; save its state_dict()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizer!r})"
