"""Keys and components of a recipe that no release of its program takes, or not any more.

A key is named where the project's release of the program, else the newest one, refuses or
deprecates it, where it went with a release, or where it is none of any release's and nearly one of
that one's: a slip of the pen, not a key of a program of the user's own.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from memlint.api.tables import table
from memlint.api.versions import parse_version
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import Option, Recipe
from memlint.recipes.schemas import (
    Keys,
    added_in,
    alike,
    component_keys,
    components,
    is_inherited,
    known_keys,
    nearest_component,
    removed_in,
    replacement,
)
from memlint.source.record import NamedTuple

_NAMES = {
    Kind.TORCHTUNE: "torchtune",
    Kind.AXOLOTL: "axolotl",
    Kind.LLAMA_FACTORY: "llamafactory",
}
_MOST_PROBLEMS = 500  # of a recipe
_BUILDERS = "torchtune.models."  # which get what their section says, and nothing else


def program_of(kind: Kind) -> str | None:
    """The package whose releases read the recipes of a kind; None where no table has their keys."""
    return _NAMES.get(kind)


class Status(StrEnum):
    """What the newest release does with a key.

    refused: it stops. ignored: it reads the recipe without it. deprecated: it warns.
    """

    REFUSED = "refused"
    IGNORED = "ignored"
    DEPRECATED = "deprecated"


class KeyProblem(NamedTuple):
    """A key that is not taken. since: the release that took it out, or "". program: with its
    version. instead: what to write, as a key or ``key: value``; empty where nothing is known.
    added: the release that brought it, where that is a later one."""

    option: Option
    status: Status
    program: str
    since: str = ""
    instead: str = ""
    added: str = ""


def key_problems(recipe: Recipe) -> tuple[KeyProblem, ...]:
    """The keys at the top, and the components, that the recipe's release does not take."""
    return recipe.once(_problems)


def _problems(recipe: Recipe) -> tuple[KeyProblem, ...]:
    return tuple(islice(_problems_of(recipe), _MOST_PROBLEMS))


def _problems_of(recipe: Recipe) -> Iterator[KeyProblem]:
    name = program_of(recipe.kind)
    release = recipe.release
    if name is None or is_beyond(name, release):
        return
    known = known_keys(name, release)
    for key in recipe.keys:
        if key in known.names and key not in known.refused and key not in known.deprecated:
            continue
        value = recipe.option(key).value
        if value in (None, False, "") or value == []:
            continue  # it asks for nothing
        problem = _problem(recipe, name, known, key)
        if problem is not None:
            yield problem
    if recipe.kind is Kind.TORCHTUNE:
        yield from _components(recipe, f"{recipe.kind.value} {known.version}")


def _problem(recipe: Recipe, name: str, known: Keys, key: str) -> KeyProblem | None:
    """What is wrong with a key at the top, by what the release of program ``name`` takes."""
    option, release = recipe.option(key), recipe.release
    program = f"{recipe.kind.value} {known.version}"
    if key in known.refused:
        return KeyProblem(option, Status.REFUSED, program, "", replacement(name, release, key))
    if key in known.deprecated:
        return KeyProblem(option, Status.DEPRECATED, program, "", replacement(name, release, key))
    if key in known.names or is_inherited(known.inherits, key):
        return None
    status = Status.REFUSED if name == "llamafactory" else Status.IGNORED
    added = added_in(name, release, key)
    if added:
        return KeyProblem(option, status, program, added=added)
    since = removed_in(name, release, key) or ""
    instead = replacement(name, release, key) or ("" if since else alike(key, known.names))
    if not since and not instead:
        return None
    return KeyProblem(option, status, program, since, instead)


def is_beyond(program: str, release: str | None) -> bool:
    """True if a release is newer than the tables."""
    if release is None:
        return False
    newest = table(program).releases[-1]
    return parse_version(release).minor > parse_version(newest).minor


def component_takes(path: str, name: str = "", release: str | None = None) -> bool:
    """True if torchtune has the component, with a parameter of this name if one is given."""
    keys = component_keys(path, release)
    return keys is not None and (not name or name in keys.names)


def _components(recipe: Recipe, program: str) -> Iterator[KeyProblem]:
    """Components of torchtune that are nearly one it has, and their parameters likewise."""
    releases = table("torchtune").releases
    for section in recipe.sections:
        path = recipe.component(section)
        if not path.startswith("torchtune."):
            continue
        option = recipe.option(f"{section}._component_")
        keys = component_keys(path, recipe.release)
        if keys is None:
            near = _meant(path, recipe.release)
            if near:
                yield KeyProblem(option, Status.REFUSED, program, "", near)
            continue
        given = recipe.option(section).value
        for key in given if isinstance(given, dict) and not keys.is_open else ():
            if key != "_component_" and key not in keys.names:
                last = str(key).rpartition(".")[2]  # of a path, as overrides have them
                near = alike(last, keys.names)
                taken = (component_takes(path, str(key), each) for each in releases)
                if near or (path.startswith(_BUILDERS) and not any(taken)):
                    inner = recipe.option(f"{section}.{key}")
                    inner = inner if inner.given else option._replace(value=key)
                    yield KeyProblem(inner, Status.REFUSED, program, "", near)


# The recipes of a folder have the same components, keys and slips.
@lru_cache(maxsize=2048)
def _meant(path: str, release: str | None) -> str:
    """The component of torchtune that an unknown one is a slip of; empty where it is none."""
    module = f"{path.rpartition('.')[0]}."
    known = components(release)
    if not any(_is_slip(path, each) for each in known if each.startswith(module)):
        return ""
    near = nearest_component(path, release)
    return near if _is_slip(path, near) else ""


def _is_slip(path: str, known: str) -> bool:
    """True if a component is misspelled by a letter; another size is another release's."""
    return (
        path.rpartition(".")[0] == known.rpartition(".")[0]
        and re.findall(r"\d+", path) == re.findall(r"\d+", known)
        and bool(alike(path, frozenset({known})))
    )
