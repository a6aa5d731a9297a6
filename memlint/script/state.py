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
    """An overlay over ``parent``.

    facts: what was set since they parted. born: the scopes and objects that were made since: other
    branches know nothing of them, so that what is known of them needs no joining.
    """

    __slots__ = ("born", "dead", "facts", "parent")

    def __init__(self, parent: State | None = None) -> None:
        self.parent = parent
        self.facts: dict[Key, Slot] = {}
        self.born: set[int] = set()
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
        joined: dict[Key, Slot] = {}
        for branch in alive:
            self.born |= branch.born
            for key, slot in branch.facts.items():
                if key[0] in branch.born or len(alive) == 1:
                    joined[key] = slot
                elif key not in joined:
                    joined[key] = merge_slots([other.get(key) for other in alive])
        self.facts.update(joined)
