"""Which block comes next: learned from what execution did, not from the order of the modules.

An event is a block and the phase in which it is used. What followed two events in a row before is
expected to follow them again, so that forward, backward, evaluation, a reference model's pass and
generation each have their own order after they have run once. Before that, the neighbour is
guessed: the next block forward, the one before it backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Event", "Order", "Phase"]

Phase = Literal["forward", "without gradient", "backward"]
Event = tuple[int, Phase]


@dataclass
class Order:
    """The order of use of `count` blocks, with how often it was foreseen."""

    count: int
    foreseen: int = 0
    surprises: int = 0
    _next: dict[tuple[Event | None, Event], Event] = field(default_factory=dict)
    _previous: Event | None = None
    _current: Event | None = None

    def note(self, event: Event) -> None:
        """Enter what happens now; the same again is no news."""
        if event == self._current:
            return
        if self._current is not None:
            key = (self._previous, self._current)
            known = self._next.get(key)
            if known is not None:
                self.foreseen += known == event
                self.surprises += known != event
            self._next[key] = event
        self._previous, self._current = self._current, event

    def upcoming(self, limit: int, present: int | None) -> list[int]:
        """The next blocks, at most `limit` different ones, the `present` one left out."""
        if self._current is None:
            return []
        previous, current = self._previous, self._current
        found: list[int] = []
        # Two phases of one block are two events, so that twice as many suffice.
        for _ in range(2 * limit + 2):
            following = self._next.get((previous, current)) or self._guess(current)
            if following is None or len(found) >= limit:
                break
            previous, current = current, following
            if current[0] != present and current[0] not in found:
                found.append(current[0])
        return found

    def _guess(self, event: Event) -> Event | None:
        block, phase = event
        if phase == "backward":
            return (block - 1, phase) if block > 0 else (0, "forward")
        if block + 1 < self.count:
            return block + 1, phase
        return (block, "backward") if phase == "forward" else (0, phase)
