"""The caching allocator's rules, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory import estimate, estimates, reserving
from memlint.memory.allocator import CachingAllocator
from memlint.memory.reserving import Play

MIB = 2**20


def test_small_tensors_share_segments_of_two_mebibytes() -> None:
    allocator = CachingAllocator()
    for index in range(3):
        allocator.allocate(index, 600 * 1024)
    assert allocator.reserved == 2 * MIB
    allocator.allocate("one more", 600 * 1024)
    assert allocator.reserved == 4 * MIB


def test_middle_tensors_share_segments_of_twenty_mebibytes() -> None:
    allocator = CachingAllocator()
    allocator.allocate(0, 5 * MIB)
    allocator.allocate(1, 5 * MIB)
    assert allocator.reserved == 20 * MIB


def test_large_tensors_get_segments_of_their_own_size() -> None:
    allocator = CachingAllocator()
    allocator.allocate(0, 33 * MIB)
    assert allocator.reserved == 34 * MIB


def test_freed_blocks_are_used_again_and_split() -> None:
    allocator = CachingAllocator()
    allocator.allocate("large", 100 * MIB)
    allocator.release("large")
    allocator.allocate("half", 50 * MIB)
    allocator.allocate("other half", 50 * MIB)
    assert allocator.reserved == 100 * MIB


def test_a_hole_too_small_costs_a_new_segment() -> None:
    allocator = CachingAllocator()
    allocator.allocate("large", 100 * MIB)
    allocator.release("large")
    allocator.allocate("saved", 20 * MIB)
    allocator.allocate("large again", 100 * MIB)
    assert allocator.reserved == 200 * MIB


def test_neighbours_merge_when_freed() -> None:
    allocator = CachingAllocator()
    allocator.allocate("a", 100 * MIB)
    allocator.release("a")
    for name in ("b", "c"):
        allocator.allocate(name, 50 * MIB)
    for name in ("b", "c"):
        allocator.release(name)
    allocator.allocate("d", 100 * MIB)
    assert allocator.reserved == 100 * MIB


def test_free_segments_go_back_when_the_gpu_is_full() -> None:
    allocator = CachingAllocator(capacity=150 * MIB)
    allocator.allocate("a", 100 * MIB)
    allocator.release("a")
    allocator.allocate("b", 120 * MIB)
    assert allocator.reserved == 120 * MIB


def test_a_run_needs_less_room_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that grow take a new segment each time; before it fails, free ones go back."""
    plays: list[Play] = []
    play = reserving.reserved_over_allocated

    def kept(run: Play) -> float:
        plays.append(run)
        return 1.1

    monkeypatch.setattr(estimates, "reserved_over_allocated", kept)
    estimate({"model": "Qwen/Qwen2.5-0.5B", "trainer": "loop", "micro_batch": 4, "seq_len": 2048})
    (run,) = plays
    needed = reserving.needed_over_allocated(run)
    assert 1.02 < needed < 0.5 * play(run)
    allocated = reserving._peaks(run)[1]
    for share, passes in ((needed, True), (0.98 * needed, False)):
        room = int(share * allocated)
        assert (reserving._peaks(run._replace(capacity=room))[0] <= room) is passes


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 64 * MIB)), max_size=60))
def test_reserved_is_never_less_than_allocated(events: list[tuple[int, int]]) -> None:
    allocator = CachingAllocator()
    live: dict[int, int] = {}
    for key, size in events:
        if key in live:
            allocator.release(key)
            del live[key]
        else:
            allocator.allocate(key, size)
            live[key] = size
        assert allocator.reserved >= allocator.allocated >= sum(live.values())
    for key in live:
        allocator.release(key)
    assert allocator.allocated == 0
