"""Regular expressions that are compiled when they are first used.

Compiling one takes some 0.1 ms, and most of the patterns of the modules that every run imports are
never used in it.
"""

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """A compiled pattern in all that is asked of it; after the first use as fast as one."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return the regular expression ``text``, not compiled yet."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
