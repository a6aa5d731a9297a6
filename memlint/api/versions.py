"""Release numbers and specifiers, as far as pins of five packages need them.

Ordering follows the usual rules: numbers by size, pre-releases before their release, local labels
ignored (``2.13.0+cpu`` is ``2.13.0``). Much smaller than a general implementation, and it never
raises on what people write in requirement files: an odd version compares by its numbers.
"""

import operator
import re
from collections.abc import Callable
from functools import lru_cache

from memlint.source.record import NamedTuple

_NUMBER = r"(?s)\s*v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)"
_PRE = r"(?i)[-_.]?(a|alpha|b|beta|c|rc|pre|preview|dev)[-_.]?(\d*)"
_STRICT = (
    r"(?ai)v?(?:\d{1,5}!)?\d{1,9}(?:\.\d{1,9}){0,9}(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d{0,9})?"
    r"(?:-\d{1,9}|[-_.]?(?:post|rev|r)[-_.]?\d{0,9})?(?:[-_.]?dev[-_.]?\d{0,9})?"
    r"(?:\+[a-z0-9]{1,40}(?:[-_.][a-z0-9]{1,40}){0,9})?"
)
_CLAUSE = r"\s*+(===|==|~=|!=|<=|>=|<|>|\^|~|=)?\s*+v?([0-9][0-9A-Za-z.+!_-]*(?:\.\*)?|\*)\s*"


class Version(NamedTuple):
    """A comparable version: numbers without trailing zeros, then how final it is."""

    numbers: tuple[int, ...]
    stage: tuple[int, int]

    @property
    def minor(self) -> tuple[int, int]:
        """Major and minor number."""
        padded = (*self.numbers, 0, 0)
        return padded[0], padded[1]


FINAL = (9, 0)


# The same few versions are compared all the time.
@lru_cache(maxsize=1024)
def parse_version(text: str) -> Version:
    """Raises ValueError where ``text`` does not begin with a number."""
    parts = text.split(".")
    if text.isascii() and all(part.isdigit() for part in parts):
        return Version(_numbers(parts), FINAL)  # nearly all, without a pattern
    match = re.fullmatch(_NUMBER, text)
    if match is None:
        raise ValueError(f"expected a version such as 1.16.0, got {text!r}")
    numbers = _numbers(match[1].split("."))
    rest = match[2].partition("+")[0].strip()
    pre = re.match(_PRE, rest)
    if pre is None:
        return Version(numbers, FINAL)
    order = 0 if pre[1].lower() == "dev" else "abcrp".index(pre[1][0].lower()) + 1
    return Version(numbers, (order, int(pre[2] or 0)))


def _numbers(parts: list[str]) -> tuple[int, ...]:
    """Without trailing zeros, of which one stays."""
    numbers = [int(part) for part in parts]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_version(text: str) -> bool:
    """True if ``text`` is a version and nothing else: names of folders and lines of files that
    nobody checked become versions only so, and are then safe to print."""
    return len(text) <= 80 and re.fullmatch(_STRICT, text) is not None


def is_specifier(text: str) -> bool:
    """True if every clause of ``text`` bounds a version, and one of them by a number."""
    if len(text) > 200 or not text.isascii():
        return False
    clauses = [
        clause
        for option in re.sub(r"([<>=~!^])[ \t]+", r"\1", text).split("||")
        for clause in re.split(r"[, \t]+", option)
        if clause
    ]
    matches = [re.fullmatch(_CLAUSE, clause) for clause in clauses]
    bounds = [match[2] for match in matches if match is not None]
    return (
        len(bounds) == len(clauses)
        and all(bound == "*" or is_version(bound.removesuffix(".*")) for bound in bounds)
        and any(bound != "*" for bound in bounds)
    )


def satisfies(version: str, specifier: str) -> bool:
    """True if ``version`` is admitted by ``specifier`` (``>=0.8,<1``, ``^4.41``, ``==4.*``).

    Alternatives may be joined by ``||`` as some tools write them. A clause that cannot be read
    admits everything.
    """
    return any(
        all(_admits(version, clause) for clause in option.replace(" ", ",").split(",") if clause)
        for option in re.sub(r"([<>=~!^])\s+", r"\1", specifier).split("||")
    )


def is_between(version: Version, since: str, until: str) -> bool:
    """True if ``version`` is in the minor release ``since`` or later, and before ``until``."""
    return (not since or parse_version(since).minor <= version.minor) and (
        not until or version.minor < parse_version(until).minor
    )


def exact(specifier: str) -> str | None:
    """Return the one version that ``specifier`` pins, if it does."""
    clauses = [clause for clause in re.split(r"[,\s]+", specifier.strip()) if clause]
    if len(clauses) != 1:
        return None
    match = re.fullmatch(_CLAUSE, clauses[0])
    if match and match[1] in ("==", "===", "=") and not match[2].endswith("*"):
        return match[2]
    return None


def _admits(version: str, clause: str) -> bool:
    match = re.fullmatch(_CLAUSE, clause)
    if match is None or match[2] == "*":
        return True
    sign, text = match[1] or "==", match[2]
    candidate = parse_version(version)
    if text.endswith(".*"):
        return _begins(candidate, _digits(text)) != (sign == "!=")
    bound = parse_version(text)
    compare = _COMPARISONS.get(sign)
    if compare is not None:
        return compare(candidate, bound)
    if sign == "=":
        # Conda's single sign is a prefix match.
        return candidate == bound or _begins(candidate, _digits(text))
    return candidate >= bound and _begins(candidate, _kept(sign, text))


_COMPARISONS: dict[str, Callable[[Version, Version], bool]] = {
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def _kept(sign: str, text: str) -> tuple[int, ...]:
    """Return the first numbers of ``text``, which a compatible newer version shares."""
    if sign == "~":
        return parse_version(text).minor
    parts = text.partition("+")[0]
    if sign == "~=":
        return _digits(parts.rpartition(".")[0])
    # The caret: up to the leftmost number that is not zero.
    numbers = _digits(parts)
    first = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    return numbers[: first + 1]


def _digits(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _begins(candidate: Version, prefix: tuple[int, ...]) -> bool:
    padded = (*candidate.numbers, *[0] * len(prefix))
    return padded[: len(prefix)] == prefix
