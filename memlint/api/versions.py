"""Release numbers and specifiers, as far as pins of five packages need them.

Ordering follows the usual rules: numbers by size, pre-releases before their release, local labels
ignored (``2.13.0+cpu`` is ``2.13.0``). Much smaller than a general implementation, and it never
raises on what people write in requirement files: an odd version compares by its numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(?s)\s*v?(?:\d+!)?(\d+(?:\.\d+)*)(.*)"
_PRE = r"(?i)[-_.]?(a|alpha|b|beta|c|rc|pre|preview|dev)[-_.]?(\d*)"
_STRICT = (
    r"(?ai)v?(?:\d{1,5}!)?\d{1,9}(?:\.\d{1,9}){0,9}(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d{0,9})?"
    r"(?:-\d{1,9}|[-_.]?(?:post|rev|r)[-_.]?\d{0,9})?(?:[-_.]?dev[-_.]?\d{0,9})?"
    r"(?:\+[a-z0-9]{1,40}(?:[-_.][a-z0-9]{1,40}){0,9})?"
)
_CLAUSE = r"\s*(===|==|~=|!=|<=|>=|<|>|\^|~|=)?\s*v?([0-9][0-9A-Za-z.+!_-]*(?:\.\*)?|\*)\s*"


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
    """Whether ``text`` is a version and nothing else: names of folders and lines of files that
    nobody checked become versions only so, and are then safe to print."""
    return len(text) <= 80 and re.fullmatch(_STRICT, text) is not None


def is_specifier(text: str) -> bool:
    """Whether every clause of ``text`` bounds a version, and one of them by a number."""
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
    """Whether ``version`` is admitted by ``specifier`` (``>=0.8,<1``, ``^4.41``, ``==4.*``).

    Alternatives may be joined by ``||`` as some tools write them. A clause that cannot be read
    admits everything.
    """
    return any(
        all(_admits(version, clause) for clause in option.replace(" ", ",").split(",") if clause)
        for option in re.sub(r"([<>=~!^])\s+", r"\1", specifier).split("||")
    )


def exact(specifier: str) -> str | None:
    """The one version that ``specifier`` pins, if it does."""
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
    operator, text = match[1] or "==", match[2]
    candidate = parse_version(version)
    if text.endswith(".*"):
        prefix = tuple(int(part) for part in text[:-2].split(".") if part.isdigit())
        padded = (*candidate.numbers, *[0] * len(prefix))
        same = padded[: len(prefix)] == prefix
        return not same if operator == "!=" else same
    bound = parse_version(text)
    match operator:
        case "==" | "===":
            return candidate == bound
        case "=":
            # Conda's single sign is a prefix match.
            return candidate == bound or _begins(candidate, text)
        case "!=":
            return candidate != bound
        case "<=":
            return candidate <= bound
        case ">=":
            return candidate >= bound
        case "<":
            return candidate < bound
        case ">":
            return candidate > bound
        case "~=":
            written = text.partition("+")[0].split(".")
            prefix = tuple(int(p) for p in written[:-1] if p.isdigit())
            padded = (*candidate.numbers, *[0] * len(prefix))
            return candidate >= bound and padded[: len(prefix)] == prefix
        case "~":
            return candidate >= bound and candidate.minor == bound.minor
        case _:  # caret: up to the next change of the leftmost number that is not zero
            numbers = [int(p) for p in text.partition("+")[0].split(".") if p.isdigit()]
            fixed = next((i for i, part in enumerate(numbers) if part), len(numbers) - 1) + 1
            padded = (*candidate.numbers, *[0] * fixed)
            return candidate >= bound and padded[:fixed] == tuple(numbers[:fixed])


def _begins(candidate: Version, text: str) -> bool:
    prefix = tuple(int(part) for part in text.split(".") if part.isdigit())
    padded = (*candidate.numbers, *[0] * len(prefix))
    return padded[: len(prefix)] == prefix
