"""The caching allocator's rules, one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.allocator import CachingAllocator

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


def test_a_segment_that_grows_serves_larger_tensors() -> None:
    allocator = CachingAllocator(expandable=True)
    for size in (50, 80, 120):
        allocator.allocate("a", size * MIB)
        allocator.release("a")
    assert allocator.reserved == 120 * MIB
    allocator.allocate("a", 60 * MIB)
    allocator.allocate("b", 70 * MIB)
    assert allocator.reserved == 130 * MIB
    allocator.release("a")
    allocator.allocate("c", 61 * MIB)  # what "a" left is too small, and "b" is the end
    assert allocator.reserved == (130 + 62) * MIB


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(1, 64 * MIB)), max_size=60), st.booleans()
)
def test_reserved_is_never_less_than_allocated(
    events: list[tuple[int, int]], expandable: bool
) -> None:
    allocator = CachingAllocator(expandable=expandable)
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
