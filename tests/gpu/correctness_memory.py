"""The memory model against a real GPU: allocated and reserved of twenty runs."""

from __future__ import annotations

from memlint.memory import estimate
from tests.gpu.harness import Result, Step
from tests.memory_fakes import Cell, cells, on_gpu

_LIMIT = 40 * 2**30  # runs larger than this are left to larger GPUs
_WORST = 0.08


def _chosen() -> list[Cell]:
    """Twenty cells that are spread over the architectures and fit a 48 GiB GPU."""
    fitting = [
        cell
        for cell in cells()
        if cell.predicted() < _LIMIT and cell.settings.get("loss") != "chunked"
    ]
    return fitting[:: max(len(fitting) // 20, 1)][:20]


def compare(cell: Cell) -> Result:
    """Prediction and measurement of one cell. Raises AssertionError beyond 8 % of allocated."""
    allocated, reserved = on_gpu(cell)
    predicted = estimate(cell.run())
    error = predicted.allocated.estimate / allocated - 1
    if abs(error) > _WORST:
        raise AssertionError(f"{cell.name}: predicted {error:+.1%}")
    return {
        "cell": cell.name,
        "allocated": allocated,
        "allocated_error": error,
        "reserved": reserved,
        "reserved_error": predicted.reserved.estimate / reserved - 1,
    }


def compare_all() -> Result:
    """All cells, one after the other."""
    return {cell.name: compare(cell) for cell in _chosen()}


STEPS = (Step("memory_model_twenty_runs", compare_all, 4),)
