"""Patches, as ``git apply`` and ``patch -p1`` read them."""

import re
from collections.abc import Iterator, Sequence

from memlint.fix.differences import Block, differences
from memlint.fix.splicing import split_lines

# Bytes that git writes in another way where it quotes a name, which it then does.
_QUOTED = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_LETTERS = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))


def unified_diff(before: str, after: str, path: str, *, context: int = 3) -> Iterator[str]:
    """The lines of a patch that turns ``before`` into ``after``; ``path`` is the file's name."""
    old, new = split_lines(before), split_lines(after)
    hunks = _hunks(list(differences(old, new)), context)
    if hunks:
        yield f"--- {_name(f'a/{path}')}\n"
        yield f"+++ {_name(f'b/{path}')}\n"
    for hunk in hunks:
        for line in _lines(hunk, old, new, context):
            yield line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"


def _name(name: str) -> str:
    """``name`` as git writes it: in quotes where a reader of lines could not tell its end."""
    data = name.encode("utf-8", "surrogateescape")
    quoted = _QUOTED.sub(_escaped, data).decode("ascii")
    if len(quoted) > len(data):
        return f'"{quoted}"'
    return f"{name}\t" if " " in name else name


def _escaped(match: re.Match[bytes]) -> bytes:
    byte = match[0][0]
    return b"\\%c" % _LETTERS[byte] if byte in _LETTERS else b"\\%03o" % byte


def _hunks(blocks: Sequence[Block], context: int) -> list[list[Block]]:
    """Return the blocks grouped so that no line is the context of two groups."""
    hunks: list[list[Block]] = []
    for block in blocks:
        if hunks and block.start - hunks[-1][-1].end <= 2 * context:
            hunks[-1].append(block)
        else:
            hunks.append([block])
    return hunks


def _lines(
    hunk: Sequence[Block], old: Sequence[str], new: Sequence[str], context: int
) -> Iterator[str]:
    lead = min(context, hunk[0].start)
    tail = min(context, len(old) - hunk[-1].end)
    start, end = hunk[0].start - lead, hunk[-1].end + tail
    new_start, new_end = hunk[0].new_start - lead, hunk[-1].new_end + tail
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
    for block in hunk:
        yield from (f" {line}" for line in old[start : block.start])
        yield from (f"-{line}" for line in old[block.start : block.end])
        yield from (f"+{line}" for line in new[block.new_start : block.new_end])
        start = block.end
    yield from (f" {line}" for line in old[start:end])


def _range(start: int, end: int) -> str:
    """Lines as a patch counts them: from 1, and the line before where there is none."""
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"
