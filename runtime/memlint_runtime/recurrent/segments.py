"""Which rows a layer with a state is run over, in which order, so that each token is computed once.

A segment is a row of such a run: the tokens of a document, or of a node of a prefix tree. A node
that others continue leaves its state, and its segment has no padding, which would be part of it;
nodes of one length run together. All others run together as their lengths allow: a batch is padded
by a quarter at most.

A layer that cannot begin with a state runs over each row from its first token: what rows share is
then computed for each of them, and used once. A node of one token that is itself continued is read
with each of the nodes behind it, since layers take one token after a state for decoding.

T tokens of the packed row, P tokens of an outside prefix, N rows of a batch, L its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Batch", "Node", "RowPlan", "document_plan", "tree_plan"]

# Columns of a batch for each token in it, at most.
_MOST_PADDING = 1.25
# The state of an outside prefix, as a segment's predecessor.
_OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A run of tokens that the same rows share. `start:end` are its tokens in the packed row,
    `end:stop` its descendants'; `level` counts its ancestors."""

    start: int
    end: int
    stop: int
    level: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that run together. index: `[N, L]`, tokens of the row; T stands for padding, T + 1 + p
    for token p of an outside prefix. after: `[N]`, which of the states left so far each row begins
    with, or None for rows that begin anew. leaves: whether its final states are wanted."""

    index: Tensor
    after: Tensor | None
    leaves: bool


@dataclass(frozen=True, eq=False)
class RowPlan:
    """All batches of a packed row in order. source: `[T]`, where in the batches' joined outputs
    each token is; one past their end for tokens of no document."""

    batches: tuple[Batch, ...]
    source: Tensor

    def to(self, device: torch.device) -> RowPlan:
        batches = tuple(
            Batch(b.index.to(device), None if b.after is None else b.after.to(device), b.leaves)
            for b in self.batches
        )
        return RowPlan(batches, self.source.to(device))


@dataclass(eq=False)
class _Segment:
    """ranges: its tokens, those that are read again first. own: how many of the last are computed
    here, none where a segment behind it does so. after: the segment whose state it begins with.
    leaves: whether others begin with its."""

    ranges: tuple[tuple[int, int], ...]
    own: int
    after: int | None = None
    leaves: bool = False
    turn: int = 0

    @property
    def tokens(self) -> int:
        return sum(end - start for start, end in self.ranges)


def document_plan(
    lengths: Sequence[int], places: Tensor | None = None, slots: int | None = None
) -> RowPlan:
    """Documents of so many tokens each, end to end, every one a row.

    places: `[T]`, where among `slots` slots the tokens are; all slots in order where not given.
    """
    segments, start = [], 0
    for length in lengths:
        if length:
            segments.append(_Segment(((start, start + length),), length))
        start += length
    plan = _plan(segments, start, has_outside=False)
    if places is None or slots is None:
        return plan
    # As tokens among the slots: the batches read them there, and what is between has no source.
    known = torch.cat([places.cpu(), torch.tensor([slots])])
    source = torch.full((slots,), sum(batch.index.numel() for batch in plan.batches))
    source[places.cpu()] = plan.source
    batches = tuple(Batch(known[batch.index], None, leaves=False) for batch in plan.batches)
    return RowPlan(batches, source)


def tree_plan(
    nodes: Sequence[Node], *, continues: bool, prefix_tokens: int = 0, keeps_roots: bool = False
) -> RowPlan:
    """A segment for each node of a prefix tree (in depth-first order).

    continues: whether the layer can begin with a state. prefix_tokens: tokens of an outside prefix,
    which every root continues. keeps_roots: the first root's state is wanted, for a later phase.
    """
    outside = prefix_tokens > 0
    total = max((node.stop for node in nodes), default=0)
    segments: list[_Segment] = []
    path: list[int] = []
    for i, node in enumerate(nodes):
        del path[node.level :]
        own = (node.start, node.end)
        segment = _Segment((own,), node.end - node.start)
        if path:
            _hang_below(segment, segments[path[-1]], path[-1])
        elif outside and continues:
            segment.after = _OUTSIDE
        elif outside:
            segment.ranges = ((total + 1, total + 1 + prefix_tokens), own)
        continued = node.stop > node.end or (keeps_roots and not path)
        readable = segment.after is None or segment.tokens > 1
        segment.leaves = continues and continued and readable
        if segment.after is not None and segment.after != _OUTSIDE:
            segment.turn = segments[segment.after].turn + 1
        segments.append(segment)
        path.append(i)
    return _plan(segments, total, has_outside=outside and continues)


def _hang_below(segment: _Segment, above: _Segment, place: int) -> None:
    """Begin with the state that the segment at `place` leaves, or else with its tokens."""
    if above.leaves:
        segment.after = place
        return
    segment.ranges, segment.after = (*above.ranges, *segment.ranges), above.after
    segment.own, above.own = segment.own + above.own, 0


def _plan(segments: Sequence[_Segment], total: int, *, has_outside: bool) -> RowPlan:
    batches: list[Batch] = []
    left: dict[int, int] = {_OUTSIDE: 0} if has_outside else {}
    source = torch.full((total,), -1)
    outputs = 0
    for members in _together(segments):
        chosen = [segments[i] for i in members]
        begins_anew = chosen[0].after is None
        width = max(segment.tokens for segment in chosen)
        if not begins_anew and not chosen[0].leaves:
            width = max(width, 2)
        index = torch.full((len(chosen), width), total)
        for row, segment in enumerate(chosen):
            tokens = torch.cat([torch.arange(a, b) for a, b in segment.ranges])
            index[row, : len(tokens)] = tokens
            begin = outputs + row * width + len(tokens) - segment.own
            source[tokens[len(tokens) - segment.own :]] = torch.arange(begin, begin + segment.own)
        after = [left[s.after] for s in chosen if s.after is not None]
        batches.append(Batch(index, None if begins_anew else torch.tensor(after), chosen[0].leaves))
        outputs += len(chosen) * width
        if chosen[0].leaves:
            count = len(left)
            left.update({i: count + row for row, i in enumerate(members)})
    source[source < 0] = outputs
    return RowPlan(tuple(batches), source)


def _together(segments: Sequence[_Segment]) -> list[list[int]]:
    """The segments of each batch: those that leave a state first, turn by turn."""
    exact: dict[tuple[int, int, bool], list[int]] = {}
    rest: dict[bool, list[int]] = {}
    for i, segment in enumerate(segments):
        anew = segment.after is None
        if not segment.own:
            continue
        if segment.leaves:
            exact.setdefault((segment.turn, segment.tokens, anew), []).append(i)
        else:
            rest.setdefault(anew, []).append(i)
    batches = [exact[key] for key in sorted(exact)]
    for members in rest.values():
        members.sort(key=lambda i: -segments[i].tokens)
        batch: list[int] = []
        tokens = 0
        for i in members:
            length = segments[i].tokens
            columns = segments[batch[0]].tokens * (len(batch) + 1) if batch else length
            if columns > _MOST_PADDING * (tokens + length):
                batches.append(batch)
                batch, tokens = [], 0
            batch.append(i)
            tokens += length
        if batch:
            batches.append(batch)
    return batches
