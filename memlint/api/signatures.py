"""What the tables say of a callable, as values."""

from collections.abc import Mapping
from enum import Enum, StrEnum

from memlint.api.versions import parse_version
from memlint.source.record import NamedTuple, Record


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required.REQUIRED


class UnsetType(Enum):
    """The value of a parameter whose value is not known."""

    UNSET = "unset"


Unset = UnsetType.UNSET


class Expression(Record):
    """A default that is no literal, as its source text: ``torch.float32``."""

    text: str


Default = object
"""A Python literal, ``REQUIRED`` or an ``Expression``."""


class Kind(StrEnum):
    """How an argument reaches a parameter."""

    POSITIONAL_ONLY = "positional-only"
    POSITIONAL = "positional"  # or by keyword
    KEYWORD = "keyword"
    VAR_POSITIONAL = "var-positional"
    VAR_KEYWORD = "var-keyword"


class Parameter(NamedTuple):
    """One parameter at the target.

    deprecated: giving it warns there.
    ignored: it is accepted and thrown away.
    """

    name: str
    default: Default = REQUIRED
    kind: Kind = Kind.POSITIONAL
    deprecated: bool = False
    ignored: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


class Signature(NamedTuple):
    """Parameters in positional order, ``*args`` and ``**kwargs`` left out.

    accepts_any: further keywords are taken (``**kwargs`` that lead nowhere known).
    accepts_more: further positional arguments are taken.
    """

    parameters: Mapping[str, Parameter]
    accepts_any: bool = False
    accepts_more: bool = False

    @property
    def positional(self) -> tuple[str, ...]:
        """Names that positional arguments fill, in order."""
        return tuple(
            name
            for name, parameter in self.parameters.items()
            if parameter.kind in (Kind.POSITIONAL, Kind.POSITIONAL_ONLY)
        )


class History(NamedTuple):
    """Since when and until when something is there, in minor versions of ``package``.

    since: first release that has it; None where the oldest release known has it already.
    until: first release without it, after the last that had it; None where the newest has it.
    deprecated_since: first release in which using it warns.
    ranges: every (since, until) by itself, for what went and came back.
    """

    package: str
    since: str | None
    until: str | None
    deprecated_since: str | None = None
    ranges: tuple[tuple[str | None, str | None], ...] = ()

    def is_over(self, version: str) -> bool:
        """True if it was gone by ``version`` of the package, and not yet to come."""
        return self.until is not None and parse_version(version) >= parse_version(self.until)

    def last_until(self, version: str) -> str | None:
        """The first release without it, of those up to ``version``; None where it never went."""
        here = parse_version(version).minor
        ends = [end for _, end in self._spans() if end and parse_version(end).minor <= here]
        return ends[-1] if ends else None

    def next_since(self, version: str) -> str | None:
        """Return the first release behind ``version`` that brings it; None where none does."""
        here = parse_version(version).minor
        starts = (start for start, _ in self._spans() if start)
        return next((one for one in starts if parse_version(one).minor > here), None)

    def _spans(self) -> tuple[tuple[str | None, str | None], ...]:
        return self.ranges or ((self.since, self.until),)
