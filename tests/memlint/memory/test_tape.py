"""The recording of a block, against bytes computed by hand."""

from __future__ import annotations

from memlint.memory.tape import Tape

KIB = 1024


def test_what_is_not_saved_dies_after_its_last_use() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2)
    first = tape.op("first", (x,), 4096, 2)
    second = tape.op("second", (first,), 1024, 2)
    replay = tape.replay(second)
    # x and first beside each other, then first and second.
    assert replay.forward.bytes == (2 + 8 + 2) * KIB - 2 * KIB
    assert replay.saved == 0


def test_saved_tensors_live_until_their_operation_runs_backward() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2)
    hidden = tape.op("hidden", (x,), 2048, 2, saves=(x,))
    output = tape.op("output", (hidden,), 1024, 2, saves=(hidden,))
    replay = tape.replay(output)
    assert replay.saved == (2 + 4) * KIB
    # Saved x and hidden, the output's gradient and hidden's.
    assert replay.backward.bytes == (2 + 4 + 2 + 4) * KIB


def test_a_second_gradient_is_added_into_the_first() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2)
    left = tape.op("left", (x,), 1024, 2)
    right = tape.op("right", (x,), 1024, 2)
    replay = tape.replay(tape.add("sum", left, right))
    # The sum's gradient is both branches'; each branch makes one of x's own.
    assert replay.backward.bytes == 3 * 2 * KIB


def test_gradients_of_halves_are_joined_into_one_of_the_whole() -> None:
    peaks = []
    for halves in (True, False):
        tape = Tape()
        x = tape.input("x", 1024, 2)
        whole = tape.op("whole", (x,), 2048, 2)
        cut = (tape.view(whole, 1024), tape.view(whole, 1024))
        left, right = tape.halves(whole) if halves else cut
        replay = tape.replay(tape.op("product", (left, right), 1024, 2))
        peaks.append(replay.backward.bytes)
    # The halves' gradients and the whole's; slices make one of the whole each, added together.
    assert peaks == [(2 + 2 + 4) * KIB, (2 + 4 + 4) * KIB]


def test_frozen_inputs_get_no_gradient_and_save_nothing() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2, grad=False)
    replay = tape.replay(tape.op("output", (x,), 1024, 2, saves=(x,)))
    assert replay.saved == 0
    assert replay.backward.bytes == 0


def test_weight_gradients_outlive_the_block() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2)
    replay = tape.replay(tape.op("map", (x,), 1024, 2, saves=(x,), weight_bytes=64 * KIB))
    assert replay.weight_gradients == 64 * KIB


def test_sizes_are_rounded_as_the_allocator_rounds() -> None:
    tape = Tape()
    x = tape.input("x", 1, 2)
    assert tape.replay(tape.op("y", (x,), 1, 2)).forward.bytes == 2 * 512


def test_what_is_repeated_saves_as_often_and_needs_its_workspace_once() -> None:
    tape = Tape()
    x = tape.input("x", 1024, 2)
    total = tape.op("total", (x,), 1024, 2)
    tape.start_repeat()
    piece = tape.op("piece", (x,), 1024, 2)
    piece = tape.op("square", (piece,), 1024, 2, saves=(piece,), scratch=8 * KIB)
    tape.repeat(4)
    replay = tape.replay(tape.add("sum", total, piece, fresh=False))
    assert replay.saved == 4 * 2 * KIB
