"""What extraction cannot see, written by hand, each line with its source.

``defaults`` says what a default computed at import is, and what one means; ``successors`` what
takes the place of what is gone; ``ignored`` what is accepted without effect. All are data; the
functions here pick the line that holds at a target.
"""

from __future__ import annotations

from memlint.api.knowledge.choose import successor
from memlint.api.knowledge.defaults import FORWARDED, MENDED_DEFAULTS

__all__ = ["FORWARDED", "MENDED_DEFAULTS", "successor"]
