"""Answers to questions of yes or no that nobody may be able to tell: True, False or None."""

from collections.abc import Iterable
from typing import TypeVar

Answer = TypeVar("Answer")


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """True if any is true; None where that depends on one that is not known."""
    known = set(answers)
    if True in known:
        return True
    return None if None in known else False


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """True if all are true; None where that depends on one that is not known."""
    known = set(answers)
    if False in known:
        return False
    return None if None in known else True


def opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def agreed(answers: Iterable[Answer | None]) -> Answer | None:
    """The answer that all give; None where they differ or there is none."""
    found = list(answers)
    return found[0] if found and all(one == found[0] for one in found) else None
