"""Streamed training under every order of streams that CUDA allows: bit-equal, and without races."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import fuse_causal_lm_loss
from memlint_runtime.device_copies import StreamCopies
from memlint_runtime.streaming import blocks, stream_frozen_weights
from torch import nn

from tests.runtime.streaming.streams import scheduled, watching
from tests.runtime.streaming.training import Case, adapted, assert_same, mapped, one_batch, train
from tests.streaming_exact import _check_counts as check_counts
from tests.streaming_exact import _model as model_of
from tests.streaming_exact import _train as train_cell
from tests.streaming_exact import assert_equal, poisoned, sample

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning"),
]

SCHEDULES: list[int | None] = [None, 0, 1, 2]


@pytest.mark.draws(4)
@pytest.mark.parametrize(("number", "cell"), list(enumerate(sample(145, seed=7))), ids=str)
def test_any_order_of_copies_gives_the_same_bits(number: int, cell: Any) -> None:
    """A combination, with a schedule of its own: the laziest, the quickest, or by chance."""
    try:
        expected = train_cell(model_of(cell.case(), None), cell, 2)
    except ValueError:
        pytest.skip("refused resident, too")
    check_counts(expected, 2, cell.accumulate)
    seeds = [None, 0] if number < 45 else [number]
    for seed in seeds:
        copies, _ = scheduled(seed)
        with poisoned():
            assert_equal(expected, train_cell(model_of(cell.case(), copies), cell, 2))


CASES = {
    "plain": Case(),
    "reentrant": Case(checkpointing="reentrant"),
    "fused, checkpointed": Case(fused=True, checkpointing="non-reentrant", accumulate=2),
    "DoRA": Case(dora=True),
    "experts": Case("mixtral"),
}


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("seed", SCHEDULES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_order_is_left_to_luck(case: Case, seed: int | None, buffers: int) -> None:
    resident, model = adapted(case), adapted(case)
    copies, streams = scheduled(seed)
    streamed = stream_frozen_weights(model, copies=copies, min_bytes=256, buffers=buffers)
    for candidate in (resident, model) if case.fused else ():
        fuse_causal_lm_loss(candidate)
    expected = train(resident, case, steps=2)
    with watching(streams):
        assert_same(expected, train(model, case, steps=2))
    assert streamed.ring.fetches > 0


@pytest.mark.parametrize("seed", SCHEDULES)
def test_from_files(seed: int | None, tmp_path: Path) -> None:
    case = Case(checkpointing="non-reentrant")
    resident, model = adapted(case), adapted(case)
    mapped(model, tmp_path)
    copies, streams = scheduled(seed)
    stream_frozen_weights(model, copies=copies, min_bytes=256, store="files")
    expected = train(resident, case, steps=2)
    with watching(streams):
        assert_same(expected, train(model, case, steps=2))


class _OnAStreamOfItsOwn(nn.Module):
    """A part that computes on another stream, in step with the main one, or a second time beside it
    for a result that nobody waits for."""

    def __init__(self, inner: nn.Module, streams: Any, beside: bool) -> None:
        super().__init__()
        self.inner, self.streams, self.beside = inner, streams, beside
        self.other = streams.Stream()
        streams.sides.remove(self.other)  # it computes: nothing waits in its queue

    def forward(self, hidden: Any) -> Any:
        self.other.wait_stream(self.streams.main)
        with self.streams.stream(self.other):
            result = self.inner(hidden)
        if self.beside:
            return self.inner(hidden)
        self.streams.main.wait_stream(self.other)
        return result


def _with_parts_on_streams(seed: int | None, buffers: int, *, beside: bool) -> tuple[Any, Any]:
    model = adapted(Case())
    copies, streams = scheduled(seed)
    for layer in model.get_base_model().model.layers:
        layer.mlp = _OnAStreamOfItsOwn(layer.mlp, streams, beside)
    stream_frozen_weights(model, copies=copies, min_bytes=256, buffers=buffers)
    return model, streams


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("seed", SCHEDULES)
def test_parts_may_compute_on_streams_of_their_own(
    seed: int | None, buffers: int, beside: bool
) -> None:
    expected = train(adapted(Case()), Case(), steps=2)
    model, streams = _with_parts_on_streams(seed, buffers, beside=beside)
    with watching(streams):
        assert_same(expected, train(model, Case(), steps=2))


def _without_the_first_wait(self: StreamCopies, ticket: Any) -> None:
    ticket.waiting.append(self._module.current_stream(ticket.device))


def _without_waiting_for_the_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    own = StreamCopies._copy

    def copy(self: Any, pairs: Any, device: Any) -> Any:
        side = self._sides.get(device) or self._sides.setdefault(device, self._module.Stream())
        side.wait_stream = lambda other: None
        return own(self, pairs, device)

    monkeypatch.setattr(StreamCopies, "_copy", copy)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "reads what": lambda patch: patch.setattr(StreamCopies, "wait", _without_the_first_wait),
    "writes what": _without_waiting_for_the_computation,
    "freed while": lambda patch: patch.setattr(StreamCopies, "let_go", lambda self, ticket: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_simulation_finds_races(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    model, streams = _with_parts_on_streams(0, 2, beside=True)
    with watching(streams), pytest.raises(AssertionError, match=f"a race: .*{fault}"):
        train(model, Case(), steps=2)


@pytest.mark.draws(1)
@pytest.mark.parametrize("steps", [60, 2000])
def test_memory_is_flat(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of the device that the ring takes, in steps of changing length."""
    model: Any = adapted(Case(changes={"num_hidden_layers": 2}))
    copies, streams = scheduled(3)
    streamed = stream_frozen_weights(model, copies=copies, min_bytes=256)
    held, after, peaks = 0, [], []
    own = blocks._resize

    def resize(flat: Any, num_bytes: int) -> None:
        nonlocal held
        held += num_bytes - flat.untyped_storage().nbytes()
        own(flat, num_bytes)

    monkeypatch.setattr(blocks, "_resize", resize)
    chance = random.Random(0)
    for step in range(steps):
        ids = torch.randint(3, 90, (1, chance.randrange(2, 9)))
        if step % 5 == 4:
            with torch.no_grad():
                model(input_ids=ids, use_cache=False)
        else:
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            model.zero_grad()
        after.append(held)
        peaks.append(streamed.ring.peak_bytes)
    assert len(set(after[5:])) == 1
    assert peaks[-1] == peaks[5]
    assert len(streams.sides[0].queue) <= 2
    assert len(streams.known) <= len(streamed.blocks)
    model(**one_batch()).loss.backward()
