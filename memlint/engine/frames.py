"""Where a run is: the scope and the function that it is in, and what is around what it reads."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter

_PARTS = (
    *("scope", "function", "returns", "contexts", "branches", "loops", "loop_nest", "stars"),
    *("called", "guessed", "method", "hook"),
)
frame_of = attrgetter(*_PARTS)


def return_to(run: Interpreter, frame: tuple[Any, ...]) -> None:
    """Go back to where ``frame_of`` was asked."""
    for name, value in zip(_PARTS, frame, strict=True):
        setattr(run, name, value)
