"""The interpreter's store: names of scopes and slots of objects, forked at branches.

A branch writes to an overlay of its own; afterwards the overlays of the branches that go on are
joined into what they forked from. A branch that returns, raises, breaks or continues is dead and
does not count in the join.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlint.script.values import Slot, merge_slots

# (scope number or id of an object, name)
Key = tuple[int, str]


class State:
    """An overlay over ``parent``. ``facts``: what was set since they parted."""

    __slots__ = ("dead", "facts", "parent")

    def __init__(self, parent: State | None = None) -> None:
        self.parent = parent
        self.facts: dict[Key, Slot] = {}
        self.dead = False

    def get(self, key: Key) -> Slot | None:
        state: State | None = self
        while state is not None:
            slot = state.facts.get(key)
            if slot is not None:
                return slot
            state = state.parent
        return None

    def join(self, branches: Sequence[State]) -> None:
        """Take over what the branches that forked from here agree and disagree on."""
        alive = [branch for branch in branches if not branch.dead]
        if not alive:
            self.dead = True
            # Objects of dead branches stay known: what was built before a ``return`` was built.
            alive = list(branches)
        if len(alive) == 1:
            self.facts.update(alive[0].facts)
            return
        joined = {}
        if len(alive) == 2:
            # Nearly all: an arm and what happens without it.
            first, second = alive
            for key, slot in first.facts.items():
                other = second.get(key)
                joined[key] = slot if slot is other else merge_slots((slot, other))
            for key, slot in second.facts.items():
                if key not in joined:
                    other = first.get(key)
                    joined[key] = slot if slot is other else merge_slots((other, slot))
        else:
            for key in dict.fromkeys(key for branch in alive for key in branch.facts):
                joined[key] = merge_slots([branch.get(key) for branch in alive])
        self.facts.update(joined)
