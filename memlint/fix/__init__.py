"""Rewriting scripts: edits, which are plain data, become new text.

Importing this package imports libcst (190 ms): nothing on the way of a check without findings does.
"""

from __future__ import annotations

from memlint.fix.apply import Applied, TextEdit, apply_edits

__all__ = ["Applied", "TextEdit", "apply_edits"]
