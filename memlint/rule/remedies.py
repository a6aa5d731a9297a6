"""What helps against an out-of-memory error: the section "Helps against" of the rules' pages.

A line of it names kinds of tensors, maybe a condition on the run's settings, and what to do:
``attention_scores (attention=eager): attn_implementation="sdpa"``.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache

from memlint.rule import registry
from memlint.rule.page import read_page


def fixes_against(kind: str, settings: object, general: Iterable[str]) -> tuple[str, ...]:
    """What helps against a kind of tensor: by the rules' pages first, then by ``general`` lines.

    settings: of the run; what it has already is left out. None: nothing is known of it.
    """
    lines = [(f"{code}: ", line) for code, line in _of_rules()]
    lines += [("", line) for line in general]
    return tuple(
        prefix + words
        for prefix, line in lines
        for kinds, condition, words in (_parts(line),)
        if kind in kinds and _holds(condition, settings)
    )


@cache
def _of_rules() -> tuple[tuple[str, str], ...]:
    return tuple(_read())


def _read() -> Iterator[tuple[str, str]]:
    folder = os.path.dirname(registry.rules_folder())
    for rule in registry.known_rules():
        path = os.path.join(folder, *rule.module.split("."))
        for line in read_page(f"{path}.md").against:
            yield rule.code, line


def _parts(line: str) -> tuple[list[str], str, str]:
    head, _, words = line.partition(": ")
    kinds, _, condition = head.partition(" (")
    return kinds.split(", "), condition.rstrip(")"), words


def _holds(condition: str, settings: object) -> bool:
    """True if a run may need it: ``key=value``, or ``key!=value``; what is not known may."""
    key, sign, value = condition.partition("=")
    known = getattr(settings, key.rstrip("!"), None) if sign else None
    return known is None or (str(known) == value) != key.endswith("!")
