"""Rewriting scripts: edits, which are plain data, become new text.

What rewrites Python imports libcst (190 ms), so that each name is imported with its first use:
nothing on the way of a check without findings does it, nor of a recipe.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlint.fix.apply import apply_edits, previews
    from memlint.fix.atomic import write_atomically
    from memlint.fix.fixpoint import Fixed, fix_source
    from memlint.fix.outcome import Applied, TextEdit
    from memlint.fix.patches import unified_diff
    from memlint.fix.splicing import text_edits


_HOMES = {
    "Applied": "outcome",
    "Fixed": "fixpoint",
    "TextEdit": "outcome",
    "apply_edits": "apply",
    "fix_source": "fixpoint",
    "previews": "apply",
    "text_edits": "splicing",
    "unified_diff": "patches",
    "write_atomically": "atomic",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"memlint.fix.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
