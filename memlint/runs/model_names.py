"""Where a script gives a model its name: from there on, statements of a fix can speak of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlint.engine.project import is_elsewhere
from memlint.engine.values import Object, options
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.loaded_models import ModelFacts
    from memlint.script.model import Script


class Naming(NamedTuple):
    """A model's name (``model``, ``self.model``), and the statement that binds it."""

    name: str
    statement: ast.Assign | ast.AnnAssign


def namings_of_loads(script: Script, facts: ModelFacts) -> tuple[Naming, ...] | None:
    """Where each load of a model is named; None where one of them is not, in this file."""
    roots = [one for one in facts.objects if one.base is None]
    return namings_of(script, roots)


def namings_of(script: Script, objects: list[Object]) -> tuple[Naming, ...] | None:
    """The first name of each object, behind what makes or returns it; None where one has none."""
    places = script.object_places({id(one) for one in objects})
    calls = [one for one in places if isinstance(one, ast.Call) and not is_elsewhere(one)]
    made_in = {script.statement(one.node) for one in objects if one.node is not None}
    namings = sorted(
        _namings(script, calls), key=lambda one: (one[0].statement not in made_in, one[1].lineno)
    )
    found: dict[int, Naming] = {}
    for naming, value in namings:
        made = options(script.value(value))
        if all(isinstance(one, Object) and one in objects for one in made):
            for one in made:
                found.setdefault(id(one), naming)
    if not objects or any(id(one) not in found for one in objects):
        return None
    return tuple({id(one.statement): one for one in found.values()}.values())


def _namings(script: Script, calls: list[ast.Call]) -> Iterator[tuple[Naming, ast.Call]]:
    """Yield the calls that are all of the value of a name or of an attribute of a name."""
    for call in calls:
        match script.parent(call):
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) as statement:
                pass
            case _:
                continue
        if isinstance(target, ast.Name) or (
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        ):
            yield Naming(ast.unparse(target), statement), call
