"""Rewriting scripts: edits, which are plain data, become new text.

Importing this package imports libcst (190 ms): nothing on the way of a check without findings does.
"""

from __future__ import annotations

from memlint.fix.apply import Applied, apply_edits
from memlint.fix.atomic import write_atomically
from memlint.fix.fixpoint import Fixed, fix_source
from memlint.fix.preview import previews, unified_diff
from memlint.fix.splicing import TextEdit, text_edits

__all__ = [
    "Applied",
    "Fixed",
    "TextEdit",
    "apply_edits",
    "fix_source",
    "previews",
    "text_edits",
    "unified_diff",
    "write_atomically",
]
