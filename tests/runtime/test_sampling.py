"""Token budgets: every row once, no batch over budget, ranks level."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime.sampling import TokenBudgetSampler

LENGTHS = st.lists(st.integers(0, 30), max_size=150)


@given(
    lengths=LENGTHS, ranks=st.integers(1, 4), micro=st.integers(1, 3), budget=st.integers(30, 90)
)
def test_every_row_once_within_the_budget(
    lengths: list[int], ranks: int, micro: int, budget: int
) -> None:
    per_rank = [
        list(
            TokenBudgetSampler(
                lengths, budget, rank=rank, ranks=ranks, micro_batches=micro, drop_last=True
            )
        )
        for rank in range(ranks)
    ]
    assert len({len(batches) for batches in per_rank}) == 1
    assert len(per_rank[0]) % micro == 0
    seen = Counter(row for batches in per_rank for batch in batches for row in batch)
    assert set(seen.values()) <= {1}
    assert len(lengths) - len(seen) < ranks * micro
    for batches in per_rank:
        assert all(sum(lengths[row] for row in batch) <= budget for batch in batches)


@given(lengths=LENGTHS, ranks=st.integers(1, 4))
def test_nothing_is_left_out_unless_asked(lengths: list[int], ranks: int) -> None:
    samplers = [TokenBudgetSampler(lengths, 64, rank=r, ranks=ranks) for r in range(ranks)]
    seen = {row for sampler in samplers for batch in sampler for row in batch}
    assert seen == set(range(len(lengths)))
    assert len({len(sampler) for sampler in samplers}) == 1


def test_ranks_have_level_work() -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(6, 0.8, 4000), 1, 4096).astype(int)
    samplers = [TokenBudgetSampler(lengths, 16_384, rank=r, ranks=8) for r in range(8)]
    work = np.array([[sum(lengths[b] ** 2) for b in sampler] for sampler in samplers], dtype=float)
    in_order = np.array_split(np.random.default_rng(1).permutation(4000), 8 * work.shape[1])
    plain = np.array([sum(lengths[b] ** 2) for b in in_order], dtype=float).reshape(8, -1)

    def waiting(by_rank: np.ndarray) -> float:
        """Share of a step's time in which the average rank waits for the slowest."""
        return float(1 - by_rank.mean(0).sum() / by_rank.max(0).sum())

    assert waiting(work) < 0.05
    assert waiting(plain) > 4 * waiting(work)
    tokens = sum(int(lengths[row]) for sampler in samplers for batch in sampler for row in batch)
    assert tokens / (work.size * 16_384) > 0.9, "batches nearly fill their budget"


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_accelerate_deals_every_rank_its_own_batches(ranks: int) -> None:
    sharding = pytest.importorskip("accelerate.data_loader").BatchSamplerShard
    lengths = [1 + i % 29 for i in range(200)]
    options = {"ranks": ranks, "micro_batches": 2}
    dealt = TokenBudgetSampler(lengths, 64, rank=None, **options)
    for rank in range(ranks):
        own = TokenBudgetSampler(lengths, 64, rank=rank, **options)
        shard = sharding(dealt, ranks, rank, even_batches=False)
        assert list(shard) == list(own)
        assert len(shard) == len(own)


def test_epochs_differ_and_repeat() -> None:
    sampler = TokenBudgetSampler(list(range(1, 30)), 64)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="row 1 has 9 tokens, more than the budget of 8"):
        TokenBudgetSampler([3, 9], 8)
    with pytest.raises(ValueError, match=r"rank must be in 0\.\.1, got 2"):
        TokenBudgetSampler([3], 8, rank=2, ranks=2)
    with pytest.raises(ValueError, match="micro_batches must be at least 1"):
        TokenBudgetSampler([3], 8, micro_batches=0)
    with pytest.raises(ValueError, match="ranks must be at least 1, got 0"):
        TokenBudgetSampler([3], 8, ranks=0)
    for budget in (None, True, "8"):
        with pytest.raises(ValueError, match=f"token_budget must be a number, got {budget!r}"):
            TokenBudgetSampler([3], budget)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="token_budget must be at least 1 token, got 0"):
        TokenBudgetSampler([3], 0)
    for seed in (None, -3, "a"):
        with pytest.raises(ValueError, match="seed must be"):
            TokenBudgetSampler([3], 8, seed=seed)  # type: ignore[arg-type]
    for lengths, message in (
        ([1.9] * 8, "got 1.9 at index 0"),
        ([2.0, float("nan")], "got nan at index 1"),
        ([8, -8, 8], "must not be negative, got -8 at index 1"),
        (None, "got None"),
        ([3, None], "whole numbers of tokens"),
        ([[1], [2]], r"shape \(2, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            TokenBudgetSampler(lengths, 8)  # type: ignore[arg-type]
    assert list(TokenBudgetSampler([2.0, 3.0], 8)) == list(TokenBudgetSampler([2, 3], 8))  # type: ignore[list-item]
