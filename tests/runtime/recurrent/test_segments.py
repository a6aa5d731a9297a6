"""Which rows layers with a state run over: each token once, each node from its prefix's state."""

from __future__ import annotations

import pytest
import torch
from memlint_runtime.recurrent.segments import Node, RowPlan, document_plan, tree_plan
from torch import Tensor

# A root of 3 tokens; under it a node of one token with two leaves, and a leaf; a root alone.
TREE = [
    Node(0, 3, 12, 0),
    Node(3, 4, 8, 1),
    Node(4, 7, 7, 2),
    Node(7, 8, 8, 2),
    Node(8, 12, 12, 1),
    Node(12, 14, 14, 0),
]
ABOVE = {1: 0, 2: 1, 3: 1, 4: 0}


def sums_over(plan: RowPlan, values: Tensor, outside: Tensor | None = None) -> Tensor:
    """A layer that adds up what it has read so far, run by the plan: `[T]`.

    outside: its state after an outside prefix, `[1]`.
    """
    readable = torch.cat([values, torch.full((1,), float("nan"))])
    states = torch.zeros(0) if outside is None else outside
    outputs = []
    for batch in plan.batches:
        rows = readable[batch.index].cumsum(1)
        if batch.after is not None:
            rows = rows + states[batch.after].unsqueeze(1)
        if batch.leaves:
            states = torch.cat([states, rows[:, -1]])
        outputs.append(rows.flatten())
    return torch.cat([*outputs, torch.zeros(1)])[plan.source]


def wanted_sums(values: Tensor, before: float = 0.0) -> Tensor:
    result = torch.empty_like(values)
    ends: list[float] = []
    for i, part in enumerate(TREE):
        start = ends[ABOVE[i]] if i in ABOVE else before
        result[part.start : part.end] = values[part.start : part.end].cumsum(0) + start
        ends.append(float(result[part.end - 1]))
    return result


@pytest.mark.parametrize("continues", [True, False])
def test_every_node_continues_its_prefix(continues: bool) -> None:
    values = torch.arange(1.0, 15.0)
    plan = tree_plan(TREE, continues=continues)
    assert torch.equal(sums_over(plan, values), wanted_sums(values))


def test_an_outside_prefix_is_continued_by_every_root() -> None:
    values, outside = torch.arange(1.0, 15.0), torch.tensor([100.0, 1000.0])
    wanted = wanted_sums(values, before=1100.0)
    handed = tree_plan(TREE, continues=True, prefix_tokens=2)
    assert torch.equal(sums_over(handed, values, outside.sum()[None]), wanted)
    read = tree_plan(TREE, continues=False, prefix_tokens=2)
    readable = torch.cat([values, torch.full((1,), float("nan")), outside])
    rows = [readable[batch.index].cumsum(1).flatten() for batch in read.batches]
    assert torch.equal(torch.cat(rows)[read.source], wanted)


def test_no_single_token_follows_a_state() -> None:
    """Layers take one token after a state for decoding, which has no gradient on a GPU."""
    for batch in tree_plan(TREE, continues=True).batches:
        assert batch.after is None or batch.index.shape[1] > 1


def test_states_are_left_by_rows_without_padding() -> None:
    total = TREE[-1].stop
    for batch in tree_plan(TREE, continues=True).batches:
        assert not batch.leaves or bool((batch.index != total).all())


def test_shared_tokens_are_read_once_where_states_are_handed_over() -> None:
    nodes = [Node(0, 50, 90, 0), *(Node(a, a + 10, a + 10, 1) for a in range(50, 90, 10))]
    assert sum(b.index.numel() for b in tree_plan(nodes, continues=True).batches) == 90
    assert sum(b.index.numel() for b in tree_plan(nodes, continues=False).batches) == 4 * 60


@pytest.mark.parametrize("lengths", [(5, 1, 7, 2), (40, 3, 3, 3, 3), (1,), (0, 4)])
def test_documents_begin_anew(lengths: tuple[int, ...]) -> None:
    values = torch.arange(1.0, 1.0 + sum(lengths))
    wanted = torch.cat([document.cumsum(0) for document in values.split(lengths)])
    plan = document_plan(lengths)
    assert torch.equal(sums_over(plan, values), wanted)
    padding = sum(int((batch.index == sum(lengths)).sum()) for batch in plan.batches)
    assert padding <= sum(lengths) / 4


def test_documents_among_slots() -> None:
    """Two rows of four slots, the first padded on the left: its padding gives zero."""
    values = torch.tensor([9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    plan = document_plan((2, 3), torch.tensor([2, 3, 4, 5, 6]), 8)
    assert sums_over(plan, values).tolist() == [0, 0, 1, 3, 3, 7, 12, 0]
