"""Which keys recipes of torchtune, LLaMA-Factory and axolotl may have in each release, and which
of a recipe's keys and components none takes, or not any more.

The tables come from ``memlint.api.extract.recipe_schemas``. A version stands for the newest release
that is not newer, or for the oldest one; without a version the newest release holds. A key is named
where the project's release of the program refuses or deprecates it, where it went with a release,
or where it is none of any release's and nearly one of that one's: a slip of the pen, not a key of a
program of the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache, lru_cache
from itertools import islice

from memlint.api.lookup import newest_tables
from memlint.api.tables import Table, holds, table
from memlint.api.versions import parse_version
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import Option, Recipe
from memlint.source.record import NamedTuple, Record

# Names that changed without a word in the release: (first release without it, old name): new name.
# Source: the help texts of LLaMA-Factory's ``hparams`` before and after say the same.
_RENAMED = {
    ("llamafactory", "0.8.0", "dpo_beta"): "pref_beta",
    ("llamafactory", "0.8.0", "dpo_loss"): "pref_loss",
    ("llamafactory", "0.8.0", "dpo_ftx"): "pref_ftx",
    ("llamafactory", "0.9.2", "image_dir"): "media_dir",
    ("llamafactory", "0.9.2", "image_resolution"): "image_max_pixels",
    ("llamafactory", "0.9.2", "video_resolution"): "video_max_pixels",
    ("llamafactory", "0.9.4", "use_cache"): "use_kv_cache",
}


class Keys(Record):
    """What a recipe, or a component, may have.

    version: of the release that was asked. names: its keys. is_open: other keys are taken too.
    inherits: classes whose options are keys as well, for ``memlint.api``.
    deprecated: keys that the release warns of. refused: keys that stop the run.
    """

    version: str
    names: frozenset[str]
    is_open: bool = False
    inherits: tuple[str, ...] = ()
    deprecated: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.names


class _Release(NamedTuple):
    """A release of a program, by its number in the program's table."""

    shipped: Table
    number: int

    @property
    def version(self) -> str:
        return self.shipped.releases[self.number]

    def words(self, record: str, history: str = "keys") -> frozenset[str]:
        """The words of one history of a record that hold in the release."""
        return _words(self.shipped, record, history, self.number)

    def upto(self, number: int) -> Iterator[_Release]:
        """Yield the releases from this one to another, without that one."""
        step = 1 if number > self.number else -1
        return (self._replace(number=each) for each in range(self.number, number, step))


def _release(kind: str, version: str | None) -> _Release:
    shipped = table(package_of(kind))
    if version is None:
        return _Release(shipped, len(shipped.releases) - 1)
    wanted = parse_version(version)
    known = [number for number, one in enumerate(_versions(shipped.name)) if one <= wanted]
    return _Release(shipped, known[-1] if known else 0)


@lru_cache(maxsize=256)
def known_keys(kind: str, version: str | None = None) -> Keys:
    """The keys of a recipe.

    torchtune: the keys that any of its recipes reads. torchtune and axolotl pass over other keys
    in silence; LLaMA-Factory stops.
    """
    release = _release(kind, version)
    inherits, deprecated, refused = (
        release.words("notes", what) for what in ("inherits", "deprecated", "refused")
    )
    names, inherited = release.words("keys"), tuple(sorted(inherits))
    is_open = kind == "torchtune" or "**" in names
    return Keys(release.version, names - {"**"}, is_open, inherited, deprecated, refused)


@lru_cache(maxsize=2048)
def component_keys(path: str, version: str | None = None) -> Keys | None:
    """The parameters of the component of torchtune with this import path; None if it has none.

    A path outside torchtune is not known either.
    """
    # What a private module defines, its package offers.
    path = re.sub(r"\._\w+(?=\.)", "", path)
    if path not in components(version):
        return None
    release = _release("torchtune", version)
    names = release.words(_aliases(release).get(path, path))
    return Keys(release.version, names - {"**", "*"}, is_open="**" in names)


@lru_cache(maxsize=64)
def components(version: str | None = None) -> frozenset[str]:
    """The import paths of all components of torchtune."""
    release = _release("torchtune", version)
    records = ((name, release.shipped.record(name)) for name in release.shipped.names())
    paths = {
        name
        for name, record in records
        if name.startswith("torchtune.") and record and holds(str(record["at"]), release.number)
    }
    return frozenset(paths | _aliases(release).keys())


def nearest_component(path: str, version: str | None = None) -> str:
    """The component of torchtune that is called like ``path``, else looks most like it."""
    known = components(version)
    same = sorted(name for name in known if name.endswith("." + path.rpartition(".")[2]))
    return same[0] if same else alike(path, known, 0.75)


@lru_cache(maxsize=1024)
def removed_in(kind: str, version: str | None, key: str) -> str | None:
    """The first release without a key that an older one had; None if it was not removed by
    ``version``."""
    later: _Release | None = None
    for release in _release(kind, version).upto(-1):
        if key in release.words("keys"):
            return later.version if later is not None else None
        later = release
    return None


@lru_cache(maxsize=1024)
def added_in(kind: str, version: str | None, key: str) -> str | None:
    """The first release with a key that ``version`` does not have yet; None if none does."""
    release = _release(kind, version)
    if key in release.words("keys"):
        return None
    later = release.upto(len(release.shipped.releases))
    return next((each.version for each in later if key in each.words("keys")), None)


@lru_cache(maxsize=1024)
def replacement(kind: str, version: str | None, key: str) -> str:
    """What to write instead of ``key`` in ``version``, as a key or ``key: value``; empty where no
    release says it."""
    gone = removed_in(kind, version, key)
    renamed = _RENAMED.get((package_of(kind), gone or "", key))
    if renamed is not None:
        return renamed
    for release in _release(kind, version).upto(-1):
        for word in release.words("notes", "replaced"):
            old, _, new = word.partition("=")
            if old == key:
                name, _, value = new.partition("=")
                return f"{name}: {value}" if value else name
    return ""


# Keys that no release declares and that axolotl lets pass: its own examples have or had them, and
# recipes are copies of these.
_PASSED_OVER = {
    "axolotl": frozenset(
        {
            "debug", "gptq_groupsize", "gptq_model_v1", "gptq_disable_exllama", "eta_min",
            "base_model_ignore_patterns", "eval_table_max_new_tokens", "adam_eps",
            "sample_packing_seq_len_multiplier",
        }
    )
}  # fmt: skip


@lru_cache(maxsize=4096)
def was_key(kind: str, key: str) -> bool:
    """True if a program had a key at the top in some release, if its examples have it, or if it is
    a slip of one it has."""
    if key in _PASSED_OVER.get(kind, ()):
        return True
    newest = known_keys(kind)
    for release in _release(kind, None).upto(-1):
        noted = (release.words("notes", what) for what in ("deprecated", "refused", "replaced"))
        if key in release.words("keys"):
            return True
        if any(key == word.partition("=")[0] for words in noted for word in words):
            return True
    return is_inherited(newest.inherits, key) or bool(alike(key, newest.names))


# How alike a key and a known one must be: one or two letters of a usual name apart.
_ALIKE = 0.88


@lru_cache(maxsize=4096)
def alike(key: str, known: frozenset[str], least: float = _ALIKE) -> str:
    """The known key of which ``key`` is a slip; empty where it is none."""
    import difflib

    near = difflib.get_close_matches(key, known, n=1, cutoff=least)
    return near[0] if near else ""


def is_inherited(classes: tuple[str, ...], key: str) -> bool:
    """True if any release of transformers has the option: the program says which it takes."""
    return any(newest_tables().history(each, key) is not None for each in classes)


def package_of(kind: str) -> str:
    """The name of the table of a kind: ``llamafactory`` for ``LLaMA-Factory``."""
    return kind.lower().replace("-", "")


# Shipped tables do not change while we run.
@cache
def _versions(name: str) -> tuple[tuple[object, ...], ...]:
    return tuple(parse_version(text) for text in table(name).releases)


@lru_cache(maxsize=4096)
def _words(shipped: Table, record_name: str, name: str, release: int) -> frozenset[str]:
    """The words of one history of a record that hold in a release."""
    record = shipped.record(record_name)
    if record is None or not holds(str(record.get("at", "")), release):
        return frozenset()
    histories = record.get(name, {})
    return frozenset(
        word for text, words in histories.items() if holds(text, release) for word in words.split()
    )


@cache
def _aliases(release: _Release) -> dict[str, str]:
    return dict(word.split("=", 1) for word in release.words("notes", "aliases"))


_NAMES = {
    Kind.TORCHTUNE: "torchtune",
    Kind.AXOLOTL: "axolotl",
    Kind.LLAMA_FACTORY: "llamafactory",
}
_MOST_PROBLEMS = 500  # of a recipe


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
                near = alike(str(key), keys.names)
                if near:
                    inner = recipe.option(f"{section}.{key}")
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
    """True if a component is one of the same module with a letter wrong; another size of a model is
    another release's."""
    return (
        path.rpartition(".")[0] == known.rpartition(".")[0]
        and re.findall(r"\d+", path) == re.findall(r"\d+", known)
        and bool(alike(path, frozenset({known})))
    )
