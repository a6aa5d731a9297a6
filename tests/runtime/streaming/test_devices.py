"""A base streams to another kind of device, by fakes, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_everything_is_on_its_device() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.streaming.devices"],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused, then taken" in done.stdout


def test_bytes_on_the_card_are_counted() -> None:
    """The command behind the table of the docs, for a model of two layers."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.streaming_memory", "--model", "8B", "--blocks", "nf4",
         "--tokens", "128", "--layers", "2"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    name, kind, tokens, host, peak, ring, *_ = done.stdout.split("\n")[2].split()
    assert (name, kind, tokens) == ("8B", "nf4", "128")
    # Two blocks in nf4, embedding and head in bf16; two buffers.
    assert float(host) == 2.17
    assert float(ring) == 0.21
    assert float(ring) < float(peak) < 0.7
