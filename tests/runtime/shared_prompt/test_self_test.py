"""The look before the first use: it passes right paths and refuses wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from memlint_runtime.attention import ForestAttention
from memlint_runtime.attention.kernels import joined
from memlint_runtime.shared_prompt import self_test
from memlint_runtime.shared_prompt.self_test import errors_of_path, verify_path
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

CPU, SIZES = torch.device("cpu"), (4, 2, 32)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    self_test._verify.cache_clear()
    yield
    self_test._verify.cache_clear()


def verify(*, sinks: bool = False) -> None:
    tree = self_test.example_tree()
    q, k, v = (torch.zeros(tree.num_tokens, h, 32, dtype=torch.bfloat16) for h in (4, 2, 2))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        verify_path(ForestAttention(tree), q, k, v, None, None, sinks=sinks)


def test_example_has_three_levels_and_several_groups() -> None:
    tree = self_test.example_tree()
    assert tree.depth == 3
    assert len(tree.groups) == 2


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("path", ["joined", "blockwise"])
def test_right_paths_pass(path: Any, sinks: bool) -> None:
    found, plain = errors_of_path(path, CPU, torch.bfloat16, SIZES, sinks=sinks)
    assert len(found) == 4 + sinks
    assert max(f / p for f, p in zip(found, plain, strict=True)) < 2
    verify()


def test_rows_that_part_at_once_are_looked_at_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing branches, kernels on a GPU serve windows that they do not serve in trees."""
    looked: list[tuple[int, int | None]] = []
    own = self_test.dense_mask

    def watched(tree: Any, window: int | None) -> torch.Tensor:
        looked.append((tree.depth, window))
        return own(tree, window)

    monkeypatch.setattr(self_test, "dense_mask", watched)
    for branches in (False, True):
        tree = self_test.example_tree(branches=branches)
        q, k = (torch.zeros(tree.num_tokens, h, 32, dtype=torch.bfloat16) for h in (4, 2))
        verify_path(ForestAttention(tree), q, k, k, 9, None)
    assert looked == [(1, 40), (3, 40)]


@pytest.mark.parametrize("selective", [False, True])
def test_looks_from_within_checkpointing(selective: bool) -> None:
    """The first pass through a layer looks, its recomputation does not: both save the same."""
    kept = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def layer(x: torch.Tensor) -> torch.Tensor:
        verify()
        return (x @ x).sin().sum()

    x = torch.randn(8, 8, requires_grad=True)
    options = {"context_fn": kept} if selective else {}
    checkpoint(layer, x, use_reentrant=False, **options).backward()
    assert x.grad is not None
    assert self_test._verify.cache_info().misses == 1


def test_wrong_joining_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look back that is forgotten, as an operator with other semantics might."""
    monkeypatch.setattr(joined, "_merge_", lambda *_: None)
    with pytest.raises(RuntimeError, match="disagrees with the plain softmax"):
        verify()


def test_a_forgotten_sink_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "_shrink", lambda out, lse, _: (out, lse))
    with pytest.raises(RuntimeError, match="disagrees with the plain softmax"):
        verify(sinks=True)


def test_wrong_gradient_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "_add_", lambda *_: None)
    with pytest.raises(RuntimeError, match="disagrees with the plain softmax"):
        verify()
