"""The Triton kernels under Triton's interpreter, in a process that starts with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")


def test_kernels_do_what_pytorch_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.losses.triton_check"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) == 120 * 2


@pytest.mark.draws(1)
@pytest.mark.parametrize("capability", ["80", "90", "100", "120"])
def test_kernels_compile_for_a_gpu_and_spill_no_register(capability: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.losses.triton_compile", "--sm", capability],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    *rows, last = done.stdout.splitlines()[2:]
    assert last == "variants that spill registers: 0"
    assert [row.split(" | ")[6] for row in rows] == ["34", "2", "33"]


def test_a_write_under_other_threads_is_seen() -> None:
    """What a merge in place compiles to: its sums are read as rows of a tile, and written flat."""
    from tests.runtime.losses.triton_compile import written_under_readers

    rows, flat = "#ttg.slice<{dim = 1, parent = #blocked}>", "#blocked1"
    lines = [
        f"%a = tt.splat %sums : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>, {rows}> loc(#loc1)",
        f"%b = tt.splat %sums : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>, {flat}> loc(#loc1)",
        f"%c = tt.addptr %b, %at : tensor<16x!tt.ptr<f32>, {flat}>, tensor<16xi64, {flat}>",
        f"%x = tt.load %c, %mask, %none : tensor<16x!tt.ptr<f32>, {flat}> loc(#loc2)",
        f"tt.store %c, %x, %mask : tensor<16x!tt.ptr<f32>, {flat}> loc(#loc3)",
    ]
    assert written_under_readers("\n".join(lines)) == set()
    lines.insert(3, f"%y = tt.load %a, %mask, %none : tensor<16x!tt.ptr<f32>, {rows}> loc(#loc2)")
    assert written_under_readers("\n".join(lines)) == {"%sums"}
