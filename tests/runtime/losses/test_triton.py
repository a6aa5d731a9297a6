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
    assert last == "variants that spill more than two registers: 0"
    assert [row.split(" | ")[6] for row in rows] == ["34", "2", "33"]
