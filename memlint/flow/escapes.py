"""Where a value goes out of sight: returned to nobody known, stored, put in a container, compared,
handed to a function that is not followed.

What reads a tensor in sight is a use (``script.uses_at``), and what reads an object is an
attribute. All other places where it stands may lead to code that reads any of it.
"""

from collections.abc import Callable, Collection

from memlint.engine.nodes import CallNode, Expression
from memlint.engine.project import is_elsewhere, is_library
from memlint.engine.usage import Place, Usage, Way
from memlint.engine.values import Class, Function, Object
from memlint.flow.callables import SHOWS
from memlint.flow.evaluated import Evaluated

_SEEN = frozenset({Way.DROPPED, Way.READ, Way.METHOD, Way.CALLED, Way.ITEM})


def goes_out_of_sight(script: Evaluated, node: Expression) -> bool:
    """True if the tensor that an expression makes may be read where no use says so."""
    places = script.tensor_places(node)
    used = {use for _, _, use in script.uses_at(node)}

    def follows(call: CallNode) -> bool:
        return call in used or isinstance(script.value(call.func), Function)

    # Arithmetic with it is a use, a comparison is none.
    others = [place for place in places if script.parent(place) not in used]
    return not all(_is_seen(script, place, places, follows) for place in others)


def members_read(script: Evaluated, objects: Collection[Object]) -> frozenset[str] | None:
    """The attributes that the script reads or sets of objects; None where one of them may go out
    of sight. Calls of libraries that are handed one keep it to themselves."""
    places = script.object_places(set(map(id, objects)))

    def follows(call: CallNode) -> bool:
        callee = script.value(call.func)
        name = script.name(call.func) or ""
        return isinstance(callee, Function | Class) or name in SHOWS or is_library(name)

    if not all(_is_seen(script, place, places, follows) for place in places):
        return None
    uses = map(script.use, places)
    return frozenset(one.name for one in uses if one.way in (Way.READ, Way.METHOD))


def _is_seen(
    script: Evaluated,
    place: Expression,
    places: Collection[Expression],
    follows: Callable[[CallNode], bool],
) -> bool:
    """True if all is known of what is done with a value where it stands."""
    if script.is_target(place):
        return True
    if is_elsewhere(place):
        # In another file of the project, whose nodes have no place here.
        return False
    use = script.use(place)
    if use.way is Way.HELD:
        use = _returned_with_others(script, use)
    match use.way:
        case Way.COMPARED:
            return use.name == "is"
        case Way.PASSED_ON:
            return bool(use.places)
        case Way.GIVEN:
            return (use.position is not None or use.keyword is not None) and follows(use.call)
        case Way.STORED:
            alone = len(use.places) == 1 and use.places[0].is_whole and not use.name
            return alone and _is_seen_as(script, use.places[0], places)
        case Way.RETURNED:
            # What the script itself calls hands it to a place of its own.
            function = script.function(place)
            return any(script.function(other) is not function for other in places)
    return use.way in _SEEN


def _returned_with_others(script: Evaluated, held: Usage) -> Usage:
    """The ``return`` of one of several values; else what holds it."""
    around = script.use(held.around) if held.name == "Tuple" else held
    return around if around.way is Way.RETURNED else held


def _is_seen_as(script: Evaluated, stored: Place, places: Collection[Expression]) -> bool:
    """True if all reads of what a value is stored as are among the places."""
    if stored.holder is None:
        return not script.is_shared(stored.name)
    if script.text(stored.holder) != "self":
        return False
    reads = script.reads_of_attribute(stored.name)
    return bool(reads) and all(one in places for one in reads)
