"""The gates that new text must pass before it may replace the old.

The new text parses with libcst, prints as it is, and parses or compiles on the running interpreter
if the old text did. Every comment that no edit removed is still there. Nothing changed outside of
what the edits name. A failure here is our own fault and is reported as such.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memlint.fix.outcome import FixError
from memlint.fix.spans import Tree, parse
from memlint.source import Span

if TYPE_CHECKING:
    from memlint.fix.draft import Draft, Splice


_NEXT_COMMENT = re.compile(r"  (?=#)")


def _named(tree: Tree, draft: Draft) -> list[Span]:
    """Return the whole lines of what the edits of ``draft`` name."""
    return [
        Span(tree.line_start(span.start), tree.line_end(max(span.start, span.end - 1)))
        for span in draft.regions
    ]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """``spans`` in order, those that touch made one: lines that follow each other are one place."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def checked(tree: Tree, text: str, drafts: list[Draft], splices: list[Splice]) -> Tree:
    """Return the tree of the new ``text``; FixError if it may not replace that of ``tree``."""
    after = parse(text)
    if after.compiles < tree.compiles:
        raise FixError("the new text does not parse")
    if not _keeps_to_edits(tree, drafts, splices):
        raise FixError("a line would change that no edit names")
    if _loses_comments(tree, after, drafts):
        raise FixError("a comment would be lost")
    return after


def _keeps_to_edits(tree: Tree, drafts: list[Draft], splices: list[Splice]) -> bool:
    """True if all that changes is named by an edit; whole lines may be inserted anywhere."""
    named = _joined(span for draft in drafts for span in _named(tree, draft))
    return all(
        (splice.lines and splice.span.start == splice.span.end)
        or any(region.contains(splice.span) for region in named)
        for splice in splices
    )


def _loses_comments(tree: Tree, after: Tree, drafts: list[Draft]) -> bool:
    """True if a comment is missing that no edit takes away."""
    going = [span for draft in drafts for span in draft.comments]
    kept = Counter(
        comment
        for comment, place in tree.comments()
        if not any(span.contains(place) for span in going)
    )
    there: Counter[str] = Counter()
    for comment, _ in after.comments():
        there[comment] += 1
        # Comments of several options may share a line.
        parts = _NEXT_COMMENT.split(comment)
        there.update(parts if len(parts) > 1 else ())
    return bool(kept - there)
