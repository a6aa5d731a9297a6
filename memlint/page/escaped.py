"""Text of users in a page: nothing of it becomes markup or script."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from memlint.reports.style import printable, shown_path, visible

KINDS = {"safe": "safe fix", "unsafe": "fix that changes training", "display": "advice"}
_GIB = 2**30
# What could end a script element, or a line of JavaScript.
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028",
              "\u2029": "\\u2029"}  # fmt: skip


def text(words: str) -> str:
    """Return text on one line for an element or a quoted attribute."""
    return escape(visible(words))


def path_text(path: str) -> str:
    """Return a path as it is shown."""
    return escape(shown_path(path))


def code_text(line: str, most: int) -> str:
    """Return a line of code, cut after so many characters."""
    line = line.rstrip("\r\n")
    return escape(printable(line if len(line) <= most else f"{line[: most - 1]}…"))


def data_text(value: Any) -> str:
    """Return JSON that may stand in a script element."""
    said = json.dumps(value, separators=(",", ":"))
    return "".join(_IN_SCRIPT.get(each, each) for each in said)


def gib(size: float) -> str:
    """Return bytes as GiB, or as MiB where there are few."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB / 10 else f"{size / 2**20:.0f} MiB"
