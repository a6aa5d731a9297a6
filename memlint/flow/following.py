"""The uses of a value wherever it goes within the script: through names and choices."""

from collections.abc import Callable, Iterator

from memlint.engine.nodes import Node
from memlint.engine.usage import Place, Usage, Way
from memlint.flow.evaluated import Evaluated


def uses_of(
    script: Evaluated, node: Node, onward: Callable[[Usage], bool] | None = None
) -> Iterator[Usage]:
    """Yield what is done in the end with the value of an expression.

    Where it gets a name, what is done with that name; where it is one of several choices, what is
    done with the choice. onward: whether what a use makes is followed in its place.
    """
    pending, seen = [node], set()
    for place in pending:  # grows meanwhile
        if place in seen:
            continue
        seen.add(place)
        use = script.use(place)
        if onward is not None and onward(use):
            pending.append(use.around)
        elif use.way is Way.PASSED_ON or (use.way is Way.STORED and not use.name):
            pending += [use.around] if use.way is Way.PASSED_ON else []
            for stored in use.places:
                plain = stored.holder is None and stored.is_whole
                if plain and not script.is_shared(stored.name):
                    pending += reads_of(script, stored)
                else:
                    yield use
        else:
            yield use


def reads_of(script: Evaluated, stored: Place) -> list[Node]:
    """Where a name is read that may be what was stored under it there, in functions within too."""
    flow, statement = script.flow, script.statement(stored.node)
    scope = flow.scope(stored.node)
    return [
        use
        for use in flow.uses(stored.name, scope)
        if flow.scope(use) is not scope or statement in flow.definitions(use)
    ]
