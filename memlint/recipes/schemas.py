"""Which keys the recipes of torchtune, LLaMA-Factory and axolotl may have, in each release.

The tables come from ``memlint.api.extract.recipe_schemas``. A version stands for the newest release
that is not newer, or for the oldest one; without a version the newest release holds.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from memlint.api.lookup import newest_tables
from memlint.api.tables import Table, holds, table
from memlint.api.versions import parse_version
from memlint.source.record import Record

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
    """What one section of a recipe may have.

    version: of the release that was asked. names: its keys. is_open: other keys are taken too.
    inherits: classes whose options are keys as well, for ``memlint.api``.
    deprecated: keys that the release warns of. refused: keys that stop the run.
    """

    kind: str
    version: str
    names: frozenset[str]
    is_open: bool = False
    inherits: tuple[str, ...] = ()
    deprecated: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.names


class Replacement(Record):
    """What a release says to use instead of a key: another, maybe with this value."""

    key: str
    value: str | None = None


@lru_cache(maxsize=256)
def known_keys(kind: str, version: str | None = None, section: str = "") -> Keys | None:
    """The keys of a recipe, or of one of its parts (``datasets``, ``trl``); None if there is no
    such part.

    torchtune: the keys that any of its recipes reads. torchtune and axolotl pass over other keys
    in silence; LLaMA-Factory stops.
    """
    shipped = _table(kind)
    release = _release(shipped, version)
    section_keys = f"keys {section}".rstrip()
    record = shipped.record(section_keys)
    names = _words(shipped, section_keys, "keys", release)
    if record is None or not holds(str(record["at"]), release):
        return None

    def noted(what: str) -> frozenset[str]:
        return frozenset() if section else _words(shipped, "notes", what, release)

    return Keys(
        kind=package_of(kind),
        version=shipped.releases[release],
        names=names - {"**"},
        is_open=kind == "torchtune" or "**" in names,
        inherits=tuple(sorted(noted("inherits"))),
        deprecated=noted("deprecated"),
        refused=noted("refused"),
    )


@lru_cache(maxsize=2048)
def component_keys(path: str, version: str | None = None) -> Keys | None:
    """The parameters of the component of torchtune with this import path; None if it has none.

    A path outside torchtune is not known either.
    """
    # What a private module defines, its package offers.
    path = re.sub(r"\._\w+(?=\.)", "", path)
    if not path.startswith("torchtune."):
        return None
    shipped = table("torchtune")
    release = _release(shipped, version)
    path = _aliases(release).get(path, path)
    record = shipped.record(path)
    if record is None or not holds(str(record["at"]), release):
        return None
    names = _words(shipped, path, "keys", release)
    return Keys("torchtune", shipped.releases[release], names - {"**", "*"}, is_open="**" in names)


@lru_cache(maxsize=64)
def components(version: str | None = None) -> frozenset[str]:
    """The import paths of all components of torchtune."""
    shipped = table("torchtune")
    release = _release(shipped, version)
    records = ((name, shipped.record(name)) for name in shipped.names())
    paths = {
        name
        for name, record in records
        if name.startswith("torchtune.") and record and holds(str(record["at"]), release)
    }
    return frozenset(paths | _aliases(release).keys())


def nearest_component(path: str, version: str | None = None) -> str | None:
    """The component of torchtune that is called like ``path``, else looks most like it."""
    known = components(version)
    same = sorted(name for name in known if name.endswith("." + path.rpartition(".")[2]))
    return same[0] if same else _closest(path, known)


@lru_cache(maxsize=1024)
def removed_in(kind: str, version: str | None, key: str, section: str = "") -> str | None:
    """The first release without a key that an older one had; None if it was not removed by
    ``version``."""
    shipped = _table(kind)
    release = _release(shipped, version)
    name = f"keys {section}".rstrip()
    had = [number for number in range(release + 1) if key in _words(shipped, name, "keys", number)]
    return shipped.releases[had[-1] + 1] if had and had[-1] < release else None


@lru_cache(maxsize=1024)
def added_in(kind: str, version: str | None, key: str, section: str = "") -> str | None:
    """The first release with a key that ``version`` does not have yet; None if none does."""
    shipped = _table(kind)
    release = _release(shipped, version)
    name = f"keys {section}".rstrip()
    if key in _words(shipped, name, "keys", release):
        return None
    for number in range(release + 1, len(shipped.releases)):
        if key in _words(shipped, name, "keys", number):
            return shipped.releases[number]
    return None


@lru_cache(maxsize=1024)
def replacement(kind: str, version: str | None, key: str) -> Replacement | None:
    """What to use instead of ``key`` in ``version``; None where no release says it."""
    gone = removed_in(kind, version, key)
    renamed = _RENAMED.get((package_of(kind), gone or "", key))
    if renamed is not None:
        return Replacement(renamed)
    shipped = _table(kind)
    for number in range(_release(shipped, version), -1, -1):
        for word in _words(shipped, "notes", "replaced", number):
            old, _, new = word.partition("=")
            if old == key:
                name, _, value = new.partition("=")
                return Replacement(name, value or None)
    return None


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
    shipped = _table(kind)
    releases = range(len(shipped.releases))
    if any(key in _words(shipped, "keys", "keys", number) for number in releases):
        return True
    noted = ("deprecated", "refused", "replaced")
    if any(
        key == word.partition("=")[0]
        for number in releases
        for what in noted
        for word in _words(shipped, "notes", what, number)
    ):
        return True
    newest = known_keys(kind)
    assert newest is not None
    return is_inherited(newest.inherits, key) or bool(alike(key, newest.names))


# How alike a key and a known one must be: one or two letters of a usual name apart.
_ALIKE = 0.88


@lru_cache(maxsize=4096)
def alike(key: str, known: frozenset[str]) -> str:
    """The known key of which ``key`` is a slip; empty where it is none."""
    import difflib

    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=_ALIKE)
    return near[0] if near else ""


def is_inherited(classes: tuple[str, ...], key: str) -> bool:
    """True if any release of transformers has the option: the program says which it takes."""
    return any(newest_tables().history(each, key) is not None for each in classes)


def package_of(kind: str) -> str:
    """The name of the table of a kind: ``llamafactory`` for ``LLaMA-Factory``."""
    return kind.lower().replace("-", "")


def _table(kind: str) -> Table:
    return table(package_of(kind))


def _release(shipped: Table, version: str | None) -> int:
    if version is None:
        return len(shipped.releases) - 1
    wanted = parse_version(version)
    known = [number for number, one in enumerate(_versions(shipped.name)) if one <= wanted]
    return known[-1] if known else 0


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
def _aliases(release: int) -> dict[str, str]:
    words = _words(table("torchtune"), "notes", "aliases", release)
    return dict(word.split("=", 1) for word in words)


def _closest(word: str, known: frozenset[str]) -> str | None:
    import difflib

    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.75)
    return near[0] if near else None
