"""Methods whose answers are kept with the object that gave them, for as long as it lives."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class _Kept:
    """Stands for a method until the first call on an object, which gets answers of its own."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        # An attribute of the instance counts from now on: asking again calls nothing of ours.
        answering = cache(self._method.__get__(instance))
        instance.__dict__[self._method.__name__] = answering
        return answering


def kept(method: Method) -> Method:
    """Keep what a method answers: for an object, it runs once for the same arguments."""
    return _Kept(method)  # type: ignore[return-value]
