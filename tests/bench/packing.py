"""Packing against trl's, on one process: bins, time to plan, time with the tokens moved, memory.

    python -m tests.bench.packing [--rows 1000000] [--skip-trl]

Lengths are log-normal (mu 6, sigma 0.8, seed 0), clipped to 1..4096; capacity 4,096 tokens. Needs
about 8 GiB for one million rows with the tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from memlint_runtime import pack_dataset, plan_packing
from numpy.typing import NDArray

CAPACITY = 4096


def lengths_of(rows: int) -> NDArray[np.int64]:
    drawn = np.random.default_rng(0).lognormal(6, 0.8, rows).astype(np.int64)
    return np.clip(drawn, 1, CAPACITY)


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def token_table(lengths: NDArray[np.int64]) -> pa.Table:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = np.arange(offsets[-1], dtype=np.int32)
    return pa.table({"input_ids": pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))})


def bench_trl(table: pa.Table) -> dict[str, float]:
    from trl.data_utils import _pack_bfd

    moving = 0.0

    def timed_take(*args: Any, **kwargs: Any) -> Any:
        nonlocal moving
        took, result = seconds(lambda: take(*args, **kwargs))
        moving += took
        return result

    take = pc.take
    with mock.patch("trl.data_utils.pc.take", timed_take):
        total, packed = seconds(lambda: _pack_bfd(table, CAPACITY))
    return {"total_s": total, "plan_s": total - moving, "bins": len(packed)}


def bench_ours(table: pa.Table, lengths: NDArray[np.int64]) -> dict[str, float]:
    from datasets import Dataset
    from datasets.table import InMemoryTable

    plan_s, plan = seconds(lambda: plan_packing(lengths, CAPACITY))
    dataset = Dataset(InMemoryTable(table))
    total, packed = seconds(lambda: pack_dataset(dataset, CAPACITY, progress=False))
    assert len(packed) == plan.num_bins
    return {"total_s": total, "plan_s": plan_s, "bins": plan.num_bins, "fill": plan.fill}


def bench_ten_million() -> dict[str, float]:
    lengths = lengths_of(10_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan_s, plan = seconds(lambda: plan_packing(lengths, CAPACITY))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "plan_s": plan_s,
        "bins": plan.num_bins,
        "fill": plan.fill,
        "lengths_MiB": lengths.nbytes / 2**20,
        "peak_growth_MiB": (after - before) / 2**10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--skip-trl", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)

    # First, since the peak of a process never falls again.
    print("ten million lengths:", json.dumps(bench_ten_million()))
    lengths = lengths_of(options.rows)
    table = token_table(lengths)
    ours = bench_ours(table, lengths)
    print(f"ours, {options.rows:,} rows:", json.dumps(ours))
    if options.skip_trl:
        return
    trl = bench_trl(table)
    print(f"trl _pack_bfd, {options.rows:,} rows:", json.dumps(trl))
    print(
        f"planning {trl['plan_s'] / ours['plan_s']:.0f}x faster, tokens moved included "
        f"{trl['total_s'] / ours['total_s']:.1f}x, bins {ours['bins']} against {trl['bins']}"
    )


if __name__ == "__main__":
    main()
