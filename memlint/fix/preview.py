"""What a fix would change, shown before it is made."""

from __future__ import annotations

from collections.abc import Sequence

from memlint.fix.apply import draft
from memlint.fix.merge import merged
from memlint.fix.notes import placed_notes
from memlint.fix.outcome import Applied, FixError, TextEdit
from memlint.fix.spans import parse
from memlint.fix.splicing import spliced
from memlint.fix.width import within_width
from memlint.source.edits import Edit


def previews(text: str, fixes: Sequence[Sequence[Edit]]) -> tuple[Applied, ...]:
    """Return each of ``fixes`` as if it were the only one; the file is parsed once for all.

    Position 0 of ``applied`` or ``refused`` of each answer stands for its fix. The gates that a
    file must pass before it is written are left to ``apply_edits``.
    """
    if not fixes:
        return ()
    try:
        tree = parse(text, fixes)
    except FixError as error:
        return (Applied(text, refused={0: f"the file cannot be rewritten: {error}"}),) * len(fixes)
    result = []
    for edits in fixes:
        try:
            splices = placed_notes(tree.data, merged(tree, [draft(tree, edits)]))
            splices = within_width(tree.data, splices)
            new = spliced(tree.data, splices).decode("utf-8", "surrogatepass")
        except (FixError, AssertionError) as error:
            result.append(Applied(text, refused={0: str(error)}))
            continue
        changes = tuple(TextEdit(splice.span, splice.text) for splice in splices)
        result.append(Applied(new, applied=(0,), edits=changes))
    return tuple(result)
