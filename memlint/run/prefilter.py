"""Which rules a file could concern, known from its bytes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.rule import Rule

# What a loop around a model of torchtune's has: a builder's name (``llama3_8b``) among it.
_TORCHTUNE = (b"torchtune", b"backward")
_BUILDER = rb"_(?:\d+b|mini)"


class Prefilter:
    """Tells from a file's bytes which of ``rules`` to ask; for most files, none.

    Rules share most of their trigger words: each is looked for at most once a file, and only if the
    sets before its own were found, and of ``from trl`` the last word is there.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple((rule, rule.triggers) for rule in rules)
        different = {words for _, triggers in self._rules for words in triggers}
        self._words = {words: _shortest(words) for words in different}

    def asked(self, data: bytes) -> Iterator[Rule]:
        """Yield the rules of whose trigger words ``data`` has one of each set."""
        sets: dict[frozenset[str] | tuple[str, ...], bool] = {}
        seen: dict[bytes, bool] = {}
        own: bool | None = None

        def has(word: bytes) -> bool:
            there = seen.get(word)
            if there is None:
                last = word.rpartition(b" ")[2]
                there = seen[word] = (last == word or not last or has(last)) and word in data
            return there

        for rule, triggers in self._rules:
            for words in triggers:
                found = sets.get(words)
                if found is None:
                    found = sets[words] = any(map(has, self._words[words]))
                if not found:
                    break
            else:
                yield rule
                continue
            if own is None:
                own = may_train_torchtune(data)
            if own and rule.is_of_run:
                yield rule


def may_train_torchtune(data: bytes) -> bool:
    """True if a script may build a model with torchtune and train it in a loop of its own: what
    torchtune's own classes can do wrong has triggers of its own."""
    if not all(word in data for word in _TORCHTUNE):
        return False
    import re

    return re.search(_BUILDER, data) is not None


@lru_cache(maxsize=512)
def _shortest(words: frozenset[str] | tuple[str, ...]) -> tuple[bytes, ...]:
    """``words`` without those that hold another: they can only be found where the other is."""
    found = [word.encode() for word in words]
    return tuple(w for w in found if not any(o in w and o != w for o in found))
