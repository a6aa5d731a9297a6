"""The tree against its definition: rows read back, sharing found, nothing forwarded twice."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime.attention import dense_mask
from memlint_runtime.shared_prompt.layout import build_tree

from tests.examples import examples
from tests.runtime.shared_prompt.trees import DEEP_ROWS, padded, random_rows, tree_of

ROWS = st.lists(
    st.lists(st.integers(1, 3), min_size=1, max_size=9), min_size=1, max_size=8
)  # three symbols: prefixes collide all the time


@examples(200)
@given(rows=ROWS, least=st.sampled_from([1, 3, 1000]))
def test_every_row_reads_back_and_sees_itself_alone(rows: list[list[int]], least: int) -> None:
    ids, mask = padded(rows)
    tree = tree_of(rows, min_saved_tokens=least)
    packed = tree.take(ids)[0].tolist()
    sees = dense_mask(tree)
    formula_i = torch.arange(tree.num_tokens)
    by_formula = (formula_i <= formula_i[:, None]) & (formula_i[:, None] < tree.stop)
    assert torch.equal(sees, by_formula)
    for n in range(tree.num_scored):
        r, c = int(tree.scored_row[n]), int(tree.scored_column[n])
        context = sees[tree.predictor[n]].nonzero()[:, 0].tolist()
        assert [packed[i] for i in context] == rows[r][:c]
        assert [int(tree.position[i]) for i in context] == list(range(c))
    assert tree.num_scored == sum(len(row) - 1 for row in rows)
    # A score for each prefix whose last token is scored, however many rows have it.
    assert len(tree.predicting) == len(
        {(int(tree.predictor[n]), rows[int(tree.scored_row[n])][int(tree.scored_column[n])])
         for n in range(tree.num_scored)}
    )  # fmt: skip
    assert torch.equal(tree.spread(tree.targets(ids)), ids * (mask & (mask.cumsum(1) > 1)))
    assert tree.repeated_tokens == int(mask.sum())
    assert int(tree.rows_through.sum()) == sum(len(row) for row in rows)


@examples(200)
@given(rows=ROWS)
def test_no_prefix_is_forwarded_twice(rows: list[list[int]]) -> None:
    prefixes = {tuple(row[: n + 1]) for row in rows for n in range(len(row))}
    assert tree_of(rows, min_saved_tokens=1).num_tokens == len(prefixes)


def test_group_of_completions_costs_its_prompt_once() -> None:
    prompt, group, length = list(range(1, 101)), 8, 10
    rows = [[*prompt, 200 + g, *range(300, 300 + length - 1)] for g in range(group)]
    ids, mask = padded(rows)
    scored = mask.clone()
    scored[:, : len(prompt)] = False
    tree = build_tree(ids, mask, scored)
    assert tree.num_tokens == len(prompt) + group * (length - 1)
    assert tree.depth == 2
    assert tree.rho == pytest.approx(group * 110 / (100 + group * 9))


def test_scored_tokens_that_rows_share_are_scored_once() -> None:
    rows = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7, 8], [1, 2, 3, 4, 5, 9]]
    tree = tree_of(rows)
    assert (tree.num_scored, len(tree.predicting)) == (15, 3 + 2 + 3)
    score_M = torch.arange(8.0, requires_grad=True)
    padded_BS = tree.spread(score_M)
    assert torch.equal(padded_BS[0, 1:4], padded_BS[1, 1:4])
    padded_BS.sum().backward()
    assert sorted(score_M.grad.tolist()) == [1, 1, 1, 1, 2, 3, 3, 3]
    alone = tree_of([[1, 2, 3], [4, 5, 6]])
    assert alone.distinct is None
    assert alone.predicting is alone.predictor


def test_row_alone_costs_nothing_extra() -> None:
    ids, mask = padded([[5, 6, 7, 8]])
    tree = build_tree(ids, mask, torch.tensor([[False, False, True, True]]))
    assert (tree.num_tokens, tree.depth, len(tree.nodes)) == (3, 1, 1)


def test_prefixes_nest() -> None:
    tree = tree_of(DEEP_ROWS)
    assert tree.depth == 5
    assert tree_of(DEEP_ROWS, min_saved_tokens=50).depth == 2


def test_small_savings_are_left_alone() -> None:
    rows = [[1, 2, 10, 11], [1, 2, 20, 21], [1, 2, 30, 31]]
    assert tree_of(rows, min_saved_tokens=4).depth == 2
    assert tree_of(rows, min_saved_tokens=5).depth == 1


def test_padding_on_either_side_or_within_counts_for_nothing() -> None:
    rows = random_rows(0, 3, 3, 6, 4)
    trees = []
    for side in ("left", "right"):
        ids, mask = padded(rows, side)
        scored = mask & (mask.cumsum(1) > 1)
        tree = build_tree(ids, mask, scored, min_saved_tokens=1)
        trees.append((tree.take(ids), tree.position, tree.nodes))
        assert torch.equal(tree.spread(tree.targets(ids)), ids * scored)
    assert torch.equal(trees[0][0], trees[1][0])
    assert torch.equal(trees[0][1], trees[1][1])
    assert trees[0][2] == trees[1][2]


def test_nothing_scored_keeps_one_token_for_the_graph() -> None:
    ids, mask = padded([[1, 2, 3], [1, 2]])
    tree = build_tree(ids, mask, torch.zeros_like(mask))
    assert (tree.num_tokens, tree.num_scored) == (1, 0)


def test_wrong_input_is_named() -> None:
    ids, mask = padded([[1, 2, 3], [1, 2]])
    with pytest.raises(ValueError, match="row 0 scores its first token"):
        build_tree(ids, mask, mask)
    scored = torch.zeros_like(mask)
    scored[1, 2] = True
    with pytest.raises(ValueError, match="row 1 scores a token that its mask calls padding"):
        build_tree(ids, mask, scored)
    with pytest.raises(ValueError, match="of one shape"):
        build_tree(ids, mask[:1], mask)
