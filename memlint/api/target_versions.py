"""The versions that a script is checked for, each with where it was learned from."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from memlint.api.tables import PACKAGES, table
from memlint.api.versions import FINAL, exact, is_specifier, parse_version, satisfies
from memlint.source.record import Record


class Resolved(Record):
    """A version and its source: ``--target``, a file's path, an environment's folder.

    assumed: nothing said so; it is the newest known.
    note: what the user should know besides, such as that a newer version is treated as ``version``.
    tables: the folder of tables read from the installed files of this version, where the shipped
    ones do not reach it.
    is_open: nothing is to be said of what this version has: a commit was named, which may be of
    any release, so that ``version`` is assumed; or another file names another version.
    """

    version: str
    source: str
    assumed: bool = False
    note: str = ""
    tables: str = ""
    is_open: bool = False


class Target(Record):
    """Versions of the five packages. Hashable, so that it can key caches.

    named: the user named it, wholly or in part; what is assumed beside that is their choice.
    others: the older versions, oldest first, with which a script for a range is to run, too.
    """

    versions: tuple[tuple[str, Resolved], ...] = ()
    named: bool = False
    others: tuple[Target, ...] = ()

    @classmethod
    def of(cls, versions: Mapping[str, Resolved], *, named: bool = False) -> Target:
        """Return a target that knows ``versions`` and assumes the others.

        Beside an older trl or transformers, a library is assumed to be as old: the newest release
        of that day. What is released today does not import beside them. Without either, the newest
        release known is assumed.
        """
        day = _day(versions)
        return cls(
            tuple(
                (name, versions[name] if name in versions else _assumed(name, day))
                for name in PACKAGES
            ),
            named,
        )

    @property
    def releases(self) -> dict[str, str]:
        """The version of each library that decides what a run needs."""
        return {name: one.version for name, one in self.versions if name != "datasets"}

    def version(self, package: str) -> Resolved:
        """Raises ValueError for a package that the tables do not cover."""
        for name, resolved in self.versions:
            if name == package:
                return resolved
        raise ValueError(f"expected one of {', '.join(PACKAGES)}, got {package!r}")

    @property
    def too_old(self) -> tuple[str, ...]:
        """The libraries, each with its version, that are older than the tables: what exists in
        them, and what does not, nobody can tell."""
        return tuple(
            f"{name} {resolved.version}"
            for name, resolved in self.versions
            if name != "torch" and not resolved.assumed and _is_older(name, resolved.version)
        )

    def with_commits(self, notes: Mapping[str, str]) -> Target:
        """Return a target whose ``notes`` say of what is assumed that a commit was named."""
        versions = (
            (name, each._replace(note=notes[name], is_open=True) if name in notes else each)
            for name, each in self.versions
        )
        return self._replace(versions=tuple(versions))

    @property
    def open(self) -> tuple[str, ...]:
        """The libraries, each with its version, of which it is open what they have, and trl on
        transformers of which a commit is named."""
        opened = {name: resolved for name, resolved in self.versions if resolved.is_open}
        base = opened.get("transformers")
        named = {*opened, "trl"} if base is not None and base.assumed else {*opened}
        return tuple(f"{name} {each.version}" for name, each in self.versions if name in named)

    @property
    def label(self) -> str:
        """The versions that are not assumed, such as ``trl 1.16.0``."""
        return ", ".join(f"{name} {each.version}" for name, each in self.versions
                         if not each.assumed)  # fmt: skip

    @property
    def unknown(self) -> tuple[str, ...]:
        """The versions that no table has, each with what it is taken for."""
        return tuple(
            f"{name} {resolved.version} ({resolved.source}): {resolved.note}"
            for name, resolved in self.versions
            if resolved.note and not resolved.tables and _is_off_tables(name, resolved.version)
        )

    @property
    def assumed(self) -> bool:
        """True if any of the versions is assumed."""
        return any(resolved.assumed for _, resolved in self.versions)

    def assumed_of(self, packages: Container[str]) -> tuple[str, ...]:
        """Those of ``packages`` whose version is assumed: ``trl 1.16.0``. None if it was named."""
        return tuple(
            f"{name} {resolved.version}"
            for name, resolved in self.versions
            if resolved.assumed and name in packages and not self.named
        )

    def naming(self, packages: Container[str]) -> str:
        """Return the value of ``--target`` that names these versions of ``packages``."""
        if all(each.assumed and each.source == _NEWEST_KNOWN for _, each in self.versions):
            return NEWEST
        return ",".join(
            f"{name}={each.version}" for name, each in self.versions if name in packages
        )

    def alternatives(self, packages: Container[str]) -> Iterator[Target]:
        """Targets that could be meant instead: each release of those of ``packages`` that are
        assumed, with the others as they were on its day; the oldest first."""
        free = [each.partition(" ")[0] for each in self.assumed_of(packages)]
        releases = sorted(
            (day, order, name, version)
            for name in free
            for order, (version, day) in enumerate(table(name).days.items())
        )
        known = {name: each for name, each in self.versions if name not in free}
        for day, _, package, version in releases:
            others = {name: _assumed(name, day) for name in free}
            # Two releases may be of one day.
            release = others[package]._replace(version=version)
            yield Target.of(known | others | {package: release})

    def __str__(self) -> str:
        return ",".join(f"{name}={resolved.version}" for name, resolved in self.versions)


def newest() -> Target:
    """Return the newest release known of every package, assumed."""
    return Target.of({})


def _day(versions: Mapping[str, Resolved]) -> str | None:
    """The day to which what is known belongs; None for today. torch does not date a project: it
    is pinned for its CUDA version, and old ones run with newer libraries."""
    days: list[str] = []
    for name in ("trl", "transformers", "peft", "accelerate"):
        if name in versions:
            known = table(name)
            release = known.release(versions[name].version)
            if release == len(known.releases) - 1:
                return None
            days.append(known.days[known.releases[release]])
        if days and name == "transformers":
            break
    return max(days, default=None)


def _assumed(name: str, day: str | None) -> Resolved:
    days = table(name).days
    if day is None:
        return Resolved(table(name).releases[-1], _NEWEST_KNOWN, assumed=True)
    fitting = [version for version, released in days.items() if released <= day]
    version = fitting[-1] if fitting else next(iter(days))
    return Resolved(version, f"newest of {day}", assumed=True)


NEWEST, EVERY = "newest", "every "
_NEWEST_KNOWN = "newest known"
_PART = r"(?s)\s*([A-Za-z]+)\s*((?:[=<>~!^]+).*)?"


def parse_target(text: str, source: str = "--target") -> Target:
    """``trl=0.29,transformers=4.57``; packages that are not named are assumed to be the newest.

    A specifier is taken too (``trl>=0.20``), and ``newest``: for a package (``trl=newest``) or, by
    itself, for all. ``every trl>=0.20`` is each release that a specifier admits. Raises ValueError
    on anything else.
    """
    if text.strip().lower() == NEWEST:
        return Target.of({name: _newest(name, source) for name in PACKAGES}, named=True)
    if text.startswith(EVERY):
        return _range(text.removeprefix(EVERY), source)
    if "," in text and not text.strip(", "):
        raise ValueError(f"expected a target such as trl=0.29,transformers=4.57, got {text!r}")
    found: dict[str, Resolved] = {}
    for name, specifier in _specifiers(text):
        is_newest = specifier.lower() == f"=={NEWEST}"
        resolved = _newest(name, source) if is_newest else choose(name, specifier, source)
        known = found.setdefault(name, resolved).version
        if known != resolved.version:
            raise ValueError(
                f"target {name}: expected one version, got {known} and {resolved.version}"
            )
    return Target.of(found, named=bool(found))


def _range(text: str, source: str) -> Target:
    """Return the newest release that a range admits of each package, with its older ones as its
    ``others``: each beside what the other packages were on its day."""
    specifiers: dict[str, str] = {}
    for name, specifier in _specifiers(text):
        specifiers[name] = f"{specifiers.get(name, '')},{specifier}"
    if not specifiers:
        raise ValueError(f"expected a range such as trl>=0.15,<2, got {text!r}")
    admitted = {
        name: {each: day for each, day in table(name).days.items() if satisfies(each, specifier)}
        for name, specifier in specifiers.items()
    }
    for name, days in admitted.items():
        if not days:
            raise ValueError(f"no release known of {name} is {specifiers[name].lstrip(',')}")
    every = {_of_day("9", admitted, source): None}
    for name, days in admitted.items():
        for version, day in days.items():
            every[_of_day(day, admitted | {name: {version: ""}}, source)] = None
    newest, *others = every
    others.sort(key=lambda one: [parse_version(one.version(name).version) for name in admitted])
    return newest._replace(others=tuple(others))


def _of_day(day: str, admitted: Mapping[str, Mapping[str, str]], source: str) -> Target:
    """Return the newest of the admitted releases on a day; the oldest where none was there yet."""
    at = {
        name: [each for each, released in days.items() if released <= day] or list(days)[:1]
        for name, days in admitted.items()
    }
    return Target.of({name: Resolved(each[-1], source) for name, each in at.items()}, named=True)


def _newest(package: str, source: str) -> Resolved:
    return Resolved(table(package).releases[-1], source, note="the newest known")


def _specifiers(text: str) -> Iterator[tuple[str, str]]:
    """Yield each package that a target names, with what it says of its version."""
    # A comma also joins the clauses of one specifier: `trl>=0.20,<1`.
    for piece in re.split(r",(?!\s*[<>!=~])", text):
        if not piece.strip():
            continue
        match = re.fullmatch(_PART, piece)
        if match is None or match[1].lower() not in PACKAGES or not match[2]:
            known = ", ".join(PACKAGES)
            raise ValueError(
                f"expected a target such as trl=0.29,transformers=4.57 (of {known}), "
                f"got {piece.strip()!r}"
            )
        name, specifier = match[1].lower(), match[2].strip()
        if re.fullmatch(r"=\s*[^=<>~!^]*", specifier):
            specifier = f"=={specifier[1:].strip()}"
        if not (is_specifier(specifier) or specifier.lower() == f"=={NEWEST}"):
            written = specifier.lstrip("=<>~!^ ") or "nothing"
            raise ValueError(f"target {name}: expected a version such as 1.16.0, got {written!r}")
        yield name, specifier


def choose(package: str, specifier: str, source: str) -> Resolved:
    """The version that ``specifier`` means: its pin, or the newest release known that it admits.

    Where it admits none that is known (a pin to something newer or older, an empty range), the
    nearest is taken and the note says so.
    """
    releases = table(package).releases
    pinned = exact(specifier)
    if pinned is not None:
        return placed(package, pinned, source)
    admitted = [version for version in releases if satisfies(version, specifier)]
    if admitted:
        return Resolved(admitted[-1], source, note=f"newest release that {specifier} admits")
    bounds = re.findall(r"\d[\w.]*", specifier)
    return placed(package, bounds[0], source) if bounds else Resolved(releases[-1], source)


def placed(package: str, version: str, source: str) -> Resolved:
    """Return ``version``, with a note where it lies outside what the tables know."""
    releases = table(package).releases
    if is_newer(package, version):
        return Resolved(version, source, note=f"newer than the tables: treated as {releases[-1]}")
    if _is_older(package, version):
        return Resolved(version, source, note=f"older than the tables: treated as {releases[0]}")
    if _is_off_tables(package, version):
        wanted = parse_version(version)
        after = next(n for n, each in enumerate(releases) if parse_version(each) > wanted)
        near = f"near it are {releases[after - 1]} and {releases[after]}"
        note = f"no such release known; {near}: treated as {releases[after - 1]}"
        return Resolved(version, source, note=note)
    return Resolved(version, source)


def _is_off_tables(package: str, version: str) -> bool:
    """True if the tables know no release of that minor version, or a last one that is older.

    They hold the last release of every minor version; of the newest, more may have come since.
    """
    wanted = parse_version(version)
    releases = [parse_version(each) for each in table(package).releases]
    last = next((each for each in releases if each.minor == wanted.minor), None)
    return last is None or (last is not releases[-1] and wanted > last and wanted.stage == FINAL)


def is_newer(package: str, version: str) -> bool:
    """True if a version is newer than the newest that the shipped tables know."""
    newest_known = table(package).releases[-1]
    return parse_version(version).minor > parse_version(newest_known).minor


def _is_older(package: str, version: str) -> bool:
    """True if a version is older than the oldest that the tables know."""
    return parse_version(version).minor < parse_version(table(package).releases[0]).minor
