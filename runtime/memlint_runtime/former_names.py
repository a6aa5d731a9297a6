"""Names that arguments had before they were torch's, taken as ever."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

LOSS_NAMES = {
    "hidden_TD": "input", "weight_VD": "linear_weight", "target_T": "target", "bias": "linear_bias"
}  # fmt: skip


def takes_former_names(names: dict[str, str]) -> Callable[[_F], _F]:
    """Let a function take keywords by the names that they had. Raises TypeError for both."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for former in [name for name in names if name in kwargs] if kwargs else ():
                if names[former] in kwargs:
                    raise TypeError(f"{former} is {names[former]} by another name: give one")
                kwargs[names[former]] = kwargs.pop(former)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
