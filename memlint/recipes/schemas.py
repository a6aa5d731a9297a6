"""Which keys the recipes of torchtune, LLaMA-Factory and axolotl may have, in each release.

The tables come from ``memlint.api.extract.recipe_schemas``. A version stands for the newest release
that is not newer, or for the oldest one; without a version the newest release holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from memlint.api.lookup import newest_tables
from memlint.api.tables import Table, holds, table
from memlint.api.versions import parse_version
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
    """The first release without a key that an older one had; None if it is there in ``version``."""
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
    """What to write for ``key`` in ``version``: a key or ``key: value``; empty if it is open."""
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
    """True if a program had a key at the top in some release or example, or almost."""
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
