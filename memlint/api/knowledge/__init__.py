"""What extraction cannot see, written by hand, each line with its source.

``defaults`` says what a default computed at import is; ``behaviours`` what the libraries do where
no signature shows it; ``warned`` and ``ignored`` what warns or does nothing;
``training_arguments``, ``loading``, ``trl_configs`` and ``trl_names`` what takes the place of what
is gone. All are data; ``choose`` picks the line that holds at a target.
"""

from __future__ import annotations

from memlint.api.knowledge.choose import LINES, is_owned, successor
from memlint.api.knowledge.defaults import FORWARDED, MENDED_DEFAULTS
from memlint.api.knowledge.ignored import IGNORED
from memlint.api.knowledge.lines import Ignored, Line, Warned
from memlint.api.knowledge.warned import WARNED

__all__ = [
    "FORWARDED",
    "IGNORED",
    "LINES",
    "MENDED_DEFAULTS",
    "WARNED",
    "Ignored",
    "Line",
    "Warned",
    "is_owned",
    "successor",
]
