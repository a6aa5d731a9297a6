"""What comes of fixes. Imports no libcst: recipes are rewritten without it."""

from collections.abc import Mapping

from memlint.source import Span
from memlint.source.record import Record

_NOTHING: Mapping[int, str] = {}


class TextEdit(Record):
    """Bytes ``span`` of the old text become ``content``."""

    span: Span
    content: str


class FixError(ValueError):
    """The file cannot be rewritten, or an edit cannot be carried out; the message says why."""


class Applied(Record):
    """What came of a number of fixes, which are named by their position.

    text: the new text; the old one where nothing was applied.
    applied: fixes that are in it (or whose work was done already).
    refused: fixes that cannot be applied, and why.
    edits: what changed, as replacements of the old text in its order.
    """

    text: str
    applied: tuple[int, ...] = ()
    refused: Mapping[int, str] = _NOTHING
    edits: tuple[TextEdit, ...] = ()
