"""The interpreter's store: names of scopes and bindings of objects, forked at branches.

A branch writes to an overlay of its own; afterwards the overlays of the branches that go on are
joined into what they forked from. A branch that returns, raises, breaks or continues is
unreachable and does not count in the join.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlint.engine.values import Binding, merge_bindings

# (scope number or id of an object, name)
Key = tuple[int, str]


class State:
    """An overlay over ``parent``.

    facts: what was set since they parted. allocated: the scopes and objects that were made since:
    other branches know nothing of them, so that what is known of them needs no joining.
    """

    __slots__ = ("allocated", "facts", "parent", "unreachable")

    def __init__(self, parent: State | None = None) -> None:
        self.parent = parent
        self.facts: dict[Key, Binding] = {}
        self.allocated: set[int] = set()
        self.unreachable = False

    def get(self, key: Key) -> Binding | None:
        state: State | None = self
        while state is not None:
            binding = state.facts.get(key)
            if binding is not None:
                return binding
            state = state.parent
        return None

    def join(self, branches: Sequence[State]) -> None:
        """Take over what the branches that forked from here agree and disagree on."""
        alive = [branch for branch in branches if not branch.unreachable]
        if not alive:
            self.unreachable = True
            # What unreachable branches allocated stays known: they ran up to their ``return``.
            alive = list(branches)
        joined: dict[Key, Binding] = {}
        for branch in alive:
            self.allocated |= branch.allocated
            for key, binding in branch.facts.items():
                if key[0] in branch.allocated or len(alive) == 1:
                    joined[key] = binding
                elif key not in joined:
                    joined[key] = merge_bindings([other.get(key) for other in alive])
        self.facts.update(joined)
