"""Words that look like one that is not known."""

from collections.abc import Mapping, Sequence
from typing import Any


def suggestion(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """``; did you mean 'x'?``, or the list of what there is if nothing is like ``word``."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known are {', '.join(known)}" if len(known) <= 20 else ""
