"""A base streams to another kind of device, by fakes, in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from tests.runtime.ranks import run_ranks
from tests.runtime.streaming import devices

ROOT = Path(__file__).parents[3]


def _check_devices(rank: int, path: Path) -> None:
    with path.open("w") as told, contextlib.redirect_stdout(told):
        status = devices.main()
    assert status == 0, path.read_text()


def test_everything_is_on_its_device(tmp_path: Path) -> None:
    run_ranks(_check_devices, tmp_path / "told", ranks=1)
    assert "refused, then taken" in (tmp_path / "told").read_text()


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
