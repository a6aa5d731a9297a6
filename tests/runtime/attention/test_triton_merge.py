"""The merge kernel under Triton's interpreter, in a process that starts with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")


def test_kernel_does_what_pytorch_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.attention.triton_merge_check"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) == 18 + 2 + 1
