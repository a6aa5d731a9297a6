"""The tables at the versions of one target: each package is read at its own.

A record says what holds in which releases. Here it is known which release each package is read at,
so that an ``SFTConfig`` of trl 0.15 stands on the ``TrainingArguments`` that the user has.
"""

from collections.abc import Mapping

from memlint.api.records import names_in, nearest_release
from memlint.api.tables import PACKAGES, Entry, Table, holds, pick, table
from memlint.api.target_versions import Target
from memlint.api.versions import Version, parse_version
from memlint.source.kept import kept


class Releases:
    """The releases of packages that a target stands for. Tables are opened with their first use."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def version(self, package: str) -> Version:
        """Return the target's version of ``package``, comparable."""
        return parse_version(self.target.version(package).version)

    def is_beyond(self, package: str) -> bool:
        """True if the target's ``package`` is newer than all releases of its table."""
        known = self.table(package).releases[-1]
        return self.version(package).minor > parse_version(known).minor

    @kept
    def table(self, name: str) -> Table:
        """Return the table of that name, with the release that the user has installed."""
        folder = self.target.version(name.partition("_")[0]).tables
        if not folder:
            return table(name)
        from memlint.api.extended import extended_table

        return extended_table(name, folder)

    @kept
    def number(self, package: str) -> int:
        """Return the number of the release in the table of ``package``."""
        return self.table(package).release(self.target.version(package).version)

    def minor(self, package: str) -> Version:
        """Return the minor version of that release."""
        return parse_version(self.table(package).minor(self.number(package)))

    def record(self, name: str) -> Entry | None:
        """Return the record of a class or function over all releases."""
        package = name.partition(".")[0].rstrip(":")
        if package not in PACKAGES:
            return None
        return self.table(package).record(name)

    def module(self, name: str) -> Entry | None:
        """Return the record of a module over all releases."""
        record = self.record(f"{name}:")
        if record is None and name.startswith("transformers.models."):
            record = self.table("transformers_models").record(f"{name}:")
        return record

    def same(self, name: str) -> str | None:
        """Return the name that ``name`` is an alias of, in the release that it is read at."""
        record = self.record(name)
        if record is None or "same" not in record:
            return None
        same: str | None = pick(record["same"], self._nearest(name, record))
        return same

    def at(self, name: str) -> tuple[Entry | None, int]:
        """The record of a class or function and the release to read it at: the target's, or the
        newest that has it. A name that stands for another in that release leads to that one."""
        record = self.record(name)
        if record is None:
            return None, 0
        same = self.same(name)
        if same is not None and same != name:
            return self.at(same)
        return record, self._nearest(name, record)

    def present(self, name: str) -> tuple[Entry | None, int]:
        """Record and release of ``name`` if the target has it."""
        record = self.record(name)
        if record is None or not holds(record["at"], self.number(name.partition(".")[0])):
            return None, 0
        return self.at(name)

    def _nearest(self, name: str, record: Entry) -> int:
        package = name.partition(".")[0]
        count = len(self.table(package).releases)
        return nearest_release(record["at"], self.number(package), count)

    @kept
    def names(self, module: str) -> Mapping[str, str] | None:
        """Name -> where it leads, for the names that ``module`` offers; None where the target has
        no such module."""
        record = self.module(module)
        number = self.number(module.partition(".")[0])
        here = record is not None and holds(record["at"], number)
        return names_in(record, number) if record and here else None
