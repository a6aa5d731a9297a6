"""The lines in which two texts differ, in time that grows with their length and not its square.

Lines that stand once in each text split them into parts; ``difflib``, which compares all with all,
gets parts alone of which few lines are alike.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from memlint.source.record import NamedTuple

# Pairs of equal lines in a part that no line splits; one that has more differs as a whole.
_PAIRS = 20_000
# Parts within parts.
_DEPTH = 40


class Block(NamedTuple):
    """Lines ``start`` to ``end`` of the old text became lines ``new_start`` to ``new_end``."""

    start: int
    end: int
    new_start: int
    new_end: int


def differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the blocks of lines that differ, in order, none touching another.

    What is outside of the blocks is the same in both; of texts with little in common they may be
    larger than need be.
    """
    last: Block | None = None
    for block in _apart(old, new):
        if last is None:
            last = block
        elif (last.end, last.new_end) == (block.start, block.new_start):
            last = Block(last.start, block.end, last.new_start, block.new_end)
        else:
            yield last
            last = block
    if last is not None:
        yield last


def _apart(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the blocks that differ, in order; some may touch."""
    waiting = [(Block(0, len(old), 0, len(new)), 0)]
    while waiting:
        whole, depth = waiting.pop()
        block = _without_equal_ends(old, new, whole)
        if block.start == block.end or block.new_start == block.new_end:
            if block.start != block.end or block.new_start != block.new_end:
                yield block
            continue
        before, after = old[block.start : block.end], new[block.new_start : block.new_end]
        shared = _shared_once(before, after) if depth < _DEPTH else []
        if shared:
            parts = reversed(list(_between(block, shared)))
            waiting += [(part, depth + 1) for part in parts]
        else:
            yield from _between(block, _kept(before, after))


def _without_equal_ends(old: Sequence[str], new: Sequence[str], block: Block) -> Block:
    start, end, new_start, new_end = block
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Block(start, end, new_start, new_end)


def _between(block: Block, pairs: Sequence[tuple[int, int]]) -> Iterator[Block]:
    """What of ``block`` stands between ``pairs`` of equal lines, which count from its start."""
    start, new_start = block.start, block.new_start
    for first, second in [*pairs, (block.end - block.start, block.new_end - block.new_start)]:
        end, new_end = block.start + first, block.new_start + second
        if start < end or new_start < new_end:
            yield Block(start, end, new_start, new_end)
        start, new_start = end + 1, new_end + 1


def _shared_once(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of lines that both sides have once: the longest run in the same order."""
    places = {line: at for at, line in enumerate(after)}
    counts, others = Counter(before), Counter(after)
    pairs = [
        (at, places[line])
        for at, line in enumerate(before)
        if counts[line] == 1 and others[line] == 1
    ]
    # The longest run of rising places: the last pair of each length, and what stands before it.
    ends: list[int] = []
    last: list[int] = []
    previous: list[int | None] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        previous.append(last[length - 1] if length else None)
        if length == len(ends):
            ends.append(second)
            last.append(number)
        else:
            ends[length], last[length] = second, number
    chosen = []
    at: int | None = last[-1] if last else None
    while at is not None:
        chosen.append(pairs[at])
        at = previous[at]
    return chosen[::-1]


def _kept(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of equal lines that stay; none where there are more than ``_PAIRS`` to choose
    from."""
    counts, others = Counter(before), Counter(after)
    if sum(number * others[line] for line, number in counts.items()) > _PAIRS:
        return []
    same = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return [(at + more, other + more) for at, other, size in same for more in range(size)]
