"""What a fix would change, shown before it is made: replacements for tools, a diff for people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from memlint.fix.apply import Applied, TextEdit, draft
from memlint.fix.merge import merged, spliced
from memlint.fix.spans import FixError, parse
from memlint.rule.edits import Edit
from memlint.source import Span

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def split_lines(text: str) -> list[str]:
    """The lines of ``text`` with their ends, which are those that Python knows."""
    return _LINE.findall(text)


def previews(text: str, fixes: Sequence[Sequence[Edit]]) -> tuple[Applied, ...]:
    """Each of ``fixes`` as if it were the only one; the file is parsed once for all.

    Position 0 of ``applied`` or ``refused`` of each answer stands for its fix. The gates that a
    file must pass before it is written are left to ``apply_edits``.
    """
    if not fixes:
        return ()
    try:
        tree = parse(text)
    except FixError as error:
        return (Applied(text, refused={0: f"the file cannot be rewritten: {error}"}),) * len(fixes)
    result = []
    for edits in fixes:
        try:
            splices = merged(tree, [draft(tree, edits)])
            new = spliced(tree.data, splices).decode("utf-8", "surrogatepass")
        except (FixError, AssertionError) as error:
            result.append(Applied(text, refused={0: str(error)}))
            continue
        changes = tuple(TextEdit(splice.span, splice.text) for splice in splices)
        result.append(Applied(new, applied=(0,), edits=changes))
    return tuple(result)


def text_edits(before: str, after: str) -> tuple[TextEdit, ...]:
    """Replacements that turn ``before`` into ``after``: the lines that differ, without what their
    ends share. Spans are bytes of ``before``'s UTF-8 form, in order."""
    old, new = split_lines(before), split_lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line.encode("utf-8", "surrogatepass")))
    result = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        gone, come = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        head = _common(gone, come)
        tail = _common(gone[head:][::-1], come[head:][::-1])
        start = starts[old_start] + len(gone[:head].encode("utf-8", "surrogatepass"))
        end = starts[old_end] - len(gone[len(gone) - tail :].encode("utf-8", "surrogatepass"))
        result.append(TextEdit(Span(start, end), come[head : len(come) - tail]))
    return tuple(result)


def _common(one: str, other: str) -> int:
    """How many characters the two begin with together."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def unified_diff(before: str, after: str, path: str, *, context: int = 3) -> Iterator[str]:
    """The lines of a patch that turns ``before`` into ``after``, as ``patch`` and git read it."""
    for line in difflib.unified_diff(
        split_lines(before), split_lines(after), f"a/{path}", f"b/{path}", n=context
    ):
        if line.endswith(("\n", "\r")):
            yield line
        else:
            yield f"{line}\n\\ No newline at end of file\n"
