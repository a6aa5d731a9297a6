"""What rules are written with: fixes that downgrade themselves, and reasons for silence.

A rule says what is wrong. Every rule has two more questions: can its edits be made, and is the
script one that it says nothing of (Unsloth, no GPU, images)? They are answered here once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memlint.rule.edits import Edit
from memlint.rule.findings import Applicability, Fix
from memlint.script import Script, Setting


def advise(message: str) -> Fix:
    """Advice: shown, never applied. ``message`` is in the imperative."""
    return Fix(message, (), Applicability.DISPLAY)


def fix(message: str, edits: tuple[Edit, ...] | None, *, unsafe: bool = False) -> Fix:
    """A fix, safe unless ``unsafe``; advice where ``edits`` is None or empty.

    Edits are None where a value cannot be changed where it lives: it is unknown, or others read it.
    """
    if not edits:
        return advise(message)
    return Fix(message, edits, Applicability.UNSAFE if unsafe else Applicability.SAFE)


def together(*parts: tuple[Edit, ...] | None) -> tuple[Edit, ...] | None:
    """All edits of ``parts``; None where one of them cannot be made."""
    edits: tuple[Edit, ...] = ()
    for part in parts:
        if part is None:
            return None
        edits += part
    return edits


def is_switched_off(setting: Setting) -> bool:
    """Whether the script writes ``False`` itself; a command line's default decides nothing."""
    return setting.given is True and setting.value is False and not setting.by_default


def unless_switched_off(setting: Setting, proposed: Fix) -> Fix:
    """``proposed``; advice where the script has written ``False`` for the option."""
    if not is_switched_off(setting):
        return proposed
    return proposed._replace(edits=(), applicability=Applicability.DISPLAY)


class Skip(NamedTuple):
    """Scripts that a rule says nothing of, as data: ``Rule(skips=(UNSLOTH, OFF_CUDA))``.

    words: completes "Silent where ..." on the rule's page.
    """

    words: str
    holds: Callable[[Script], bool]


UNSLOTH = Skip("the script uses Unsloth", lambda script: script.uses_unsloth)
OFF_CUDA = Skip("it trains off CUDA (CPU, TPU, Apple, Gaudi)", lambda script: script.off_cuda)
VISION = Skip("images go into the model", lambda script: script.uses_vision)
DIFFUSION = Skip("it trains a diffusion model", lambda script: script.uses_diffusion)
