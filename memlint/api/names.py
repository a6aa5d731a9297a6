"""Names: what a qualified name leads to in the target's releases.

Modules offer names that lead on to other modules; a class or function is known by the one name
that all of them lead to.
"""

from __future__ import annotations

from memlint.api.drop_ins import original_of
from memlint.api.records import nearest_release, newest_lead
from memlint.api.tables import PACKAGES, Entry, Table, holds, pick, table
from memlint.api.target import Target, newest
from memlint.api.versions import Version, parse_version


class Names:
    """The names of one target. Answers are kept; asking twice costs nothing."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or newest()
        self._tables: dict[str, Table] = {}
        self._releases: dict[str, int] = {}
        self._canonical: dict[str, str] = {}
        self._offered: dict[tuple[str, int], dict[str, str] | None] = {}
        self._homes: dict[tuple[str, str], tuple[str, ...]] = {}

    def canonical(self, qualname: str) -> str:
        """The one name of what ``qualname`` imports: ``trl.trainer.sft_config.SFTConfig`` is
        ``trl.SFTConfig``. A name that the target does not have is known by what the newest release
        that has it calls it; an unknown name is returned as it is. The runtime's trainers take
        TRL's place, arguments and all: they go by TRL's names."""
        known = self._canonical.get(qualname)
        if known is None:
            known = self._canonical[qualname] = self._follow(original_of(qualname), 4)
        return known

    def homes(self, package: str, name: str) -> tuple[str, ...]:
        """Full names of the definitions called ``name`` that modules of ``package`` are home to at
        the target."""
        key = (package, name)
        if key not in self._homes:
            release = self._release(package)
            self._homes[key] = tuple(
                sorted(
                    f"{module}.{name}"
                    for module in set(self._table(package).modules_with(name))
                    if (self._names(module, release) or {}).get(name) == ""
                )
            )
        return self._homes[key]

    def version(self, package: str) -> Version:
        """The target's version of ``package``, comparable."""
        return parse_version(self.target.version(package).version)

    def offered(self, module: str) -> tuple[str, ...]:
        """The names that can be imported from a module of the target; none where it has no such
        module."""
        package = module.partition(".")[0]
        return tuple(self._names(module, self._release(package)) or ())

    def first_release(self, package: str) -> str:
        """The oldest minor version of ``package`` that the tables describe."""
        return self._table(package).minor(0)

    def is_beyond_tables(self, package: str) -> bool:
        """Whether the target's ``package`` is newer than all releases that the tables describe."""
        known = self._table(package).releases[-1]
        return self.version(package).minor > parse_version(known).minor

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            folder = self.target.version(name.partition("_")[0]).tables
            if folder:
                from memlint.api.extended import extended_table

                self._tables[name] = extended_table(name, folder)
            else:
                self._tables[name] = table(name)
        return self._tables[name]

    def _release(self, package: str) -> int:
        if package not in self._releases:
            version = self.target.version(package).version
            self._releases[package] = self._table(package).release(version)
        return self._releases[package]

    def _record(self, name: str) -> Entry | None:
        package = name.partition(".")[0].rstrip(":")
        if package not in PACKAGES:
            return None
        return self._table(package).record(name)

    def _module(self, module: str) -> Entry | None:
        record = self._record(f"{module}:")
        if record is None and module.startswith("transformers.models."):
            record = self._table("transformers_models").record(f"{module}:")
        return record

    def _at(self, name: str) -> tuple[Entry | None, int]:
        """The record of a class or function and the release to read it at: the target's, or the
        newest that has it. A name that stands for another in that release leads to that one."""
        record = self._record(name)
        if record is None:
            return None, 0
        package = name.partition(".")[0]
        release = nearest_release(
            record["at"], self._release(package), len(self._table(package).releases)
        )
        same = pick(record["same"], release) if "same" in record else None
        if same is not None and same != name:
            return self._at(same)
        return record, release

    def _names(self, module: str, release: int) -> dict[str, str] | None:
        """Name -> where it leads, for the names that ``module`` offers in ``release``."""
        key = (module, release)
        if key not in self._offered:
            record = self._module(module)
            if record is None or not holds(record["at"], release):
                self._offered[key] = None
            else:
                offered: dict[str, str] = {}
                for text, words in record["names"].items():
                    if holds(text, release):
                        for word in words.split():
                            name, _, leads = word.partition("=")
                            offered[name] = leads
                self._offered[key] = offered
        return self._offered[key]

    def _split(self, qualname: str) -> tuple[str, str]:
        """The longest module of the target that ``qualname`` begins with, and the rest."""
        parts = qualname.split(".")
        release = self._release(parts[0])
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            record = self._module(module)
            if record is not None and holds(record["at"], release):
                return module, ".".join(parts[length:])
        raise AssertionError(f"the table of {parts[0]} lacks the package itself")

    @staticmethod
    def _dynamic(record: Entry, release: int, name: str) -> bool:
        if "open" in record and holds(record["open"], release):
            return True
        return any(
            name in words.split()
            for text, words in record.get("unread", {}).items()
            if holds(text, release)
        )

    def _follow(self, qualname: str, depth: int) -> str:
        parts = qualname.split(".")
        package = parts[0]
        if package not in PACKAGES or len(parts) < 2 or not depth:
            return qualname
        target = self._release(package)
        for length in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:length])
            record = self._module(module)
            if record is None:
                continue
            name, rest = parts[length], parts[length + 1 :]
            leads = (self._names(module, target) or {}).get(name)
            if leads is None:
                leads = newest_lead(record, name)
            if leads is None:
                continue
            if leads == "":
                return qualname
            head = f"{package}.{name}" if leads == "^" else leads
            return self._follow(".".join([head, *rest]), depth - 1)
        return qualname
