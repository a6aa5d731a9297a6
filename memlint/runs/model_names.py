"""Where a script gives a model its name: from there on, statements of a fix can speak of it."""

from collections.abc import Iterator

from memlint.engine.modes import module_root
from memlint.engine.nodes import CallNode, Statement
from memlint.engine.project import is_elsewhere
from memlint.engine.usage import Way
from memlint.engine.values import Object, options
from memlint.script.loaded_models import ModelFacts, chain_of, is_adapter
from memlint.script.model import Script
from memlint.source.record import NamedTuple


class Naming(NamedTuple):
    """A model's name (``model``, ``self.model``), and the statement that binds it."""

    name: str
    statement: Statement


def namings_of_loads(script: Script, facts: ModelFacts) -> tuple[Naming, ...] | None:
    """Where each load of a model is named; None where one of them is not, in this file."""
    roots = [one for one in facts.objects if one.base is None]
    return namings_of(script, roots)


def namings_when_complete(script: Script, facts: ModelFacts) -> tuple[Naming, ...] | None:
    """Where each model is named when PEFT has wrapped it, its words have been counted and its
    copies are made; None where that is not known."""
    namings = namings_of(script, list(_complete(facts)))
    changes = [
        *script.calls_on(facts, *_CHANGES_HEAD),
        *(
            one
            for one in script.method_calls_anywhere(*_COPIES)
            for given in options(one.argument(0))
            if not isinstance(given, Object) or given in facts.objects
        ),
    ]
    if namings is None or not changes:
        return namings
    later = [_behind(script, one, [call.node for call in changes]) for one in namings]
    return None if None in later else tuple(one for one in later if one is not None)


_CHANGES_HEAD = ("resize_token_embeddings", "set_output_embeddings", "add_adapter")
_COPIES = ("deepcopy", "create_reference_model")


def _complete(facts: ModelFacts) -> Iterator[Object]:
    """Yield what PEFT made of each model last; the model itself where it has not wrapped it."""
    # A model is no part of its copy.
    inner = {id(one.base) for one in facts.objects if module_root(one) is not one}
    for head in facts.objects:
        if id(head) not in inner:
            root = module_root(head)
            chain = chain_of(head)
            wrappers = chain[: chain.index(root)] if isinstance(root, Object) else []
            adapted = next(filter(is_adapter, wrappers), root)
            if isinstance(adapted, Object):
                yield adapted


def _behind(script: Script, naming: Naming, changes: list[CallNode]) -> Naming | None:
    """A model's name behind what changes its head, in the same block; else None."""
    around = script.parent(naming.statement)
    statements = [naming.statement]
    for change in changes:
        if is_elsewhere(change):
            return None
        if script.is_before(change, naming.statement):
            continue
        statement = script.statement(change)
        if script.parent(statement) is not around:
            return None
        statements.append(statement)
    return Naming(naming.name, max(statements, key=lambda one: one.lineno))


def namings_of(script: Script, objects: list[Object]) -> tuple[Naming, ...] | None:
    """The first name of each object, behind what makes or returns it; None where one has none."""
    made_in = {script.statement(one.node) for one in objects if one.node is not None}
    found: dict[int, Naming] = {}
    namings = sorted(_namings(script, objects), key=lambda one: one[1].lineno)
    for naming, value in sorted(namings, key=lambda one: one[0].statement not in made_in):
        made = options(script.value(value))
        if all(one in objects for one in made):
            for one in made:
                found.setdefault(id(one), naming)
    if not objects or any(id(one) not in found for one in objects):
        return None
    return tuple({id(one.statement): one for one in found.values()}.values())


def _namings(script: Script, objects: list[Object]) -> Iterator[tuple[Naming, CallNode]]:
    """Yield the calls that may give one of the objects and are the whole value of a name."""
    for call in script.object_places(set(map(id, objects))):
        if not isinstance(call, CallNode) or is_elsewhere(call):
            continue
        use, statement = script.use(call), script.statement(call)
        alone = use.way is Way.STORED and len(use.places) == 1 and use.places[0].is_whole
        name = script.text(use.places[0].node) if alone else ""
        if script.is_simple(statement) and name.replace(".", "", 1).isidentifier():
            yield Naming(name, statement), call
