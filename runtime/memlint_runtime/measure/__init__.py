"""Where a training step's memory goes: peaks by phase and kind, a table, a picture.

    with measure_memory(model, optimizer) as measured:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    print(measured.report)
    measured.report.save_timeline("memory.svg")

On a GPU the allocator's own peak stands beside the counted one; on the CPU, or under fakes with
`fake=True` and the model made inside, counting alone is exact for tensors. Cost while open: some
20 microseconds an operation, and one reset of the allocator's peak for each phase.
"""

from memlint_runtime.measure.measuring import (
    MeasuredMemory,
    MeasureMemoryCallback,
    measure_memory,
)
from memlint_runtime.measure.report import MemoryReport, PhaseMemory

__all__ = [
    "MeasureMemoryCallback", "MeasuredMemory", "MemoryReport", "PhaseMemory", "measure_memory",
]  # fmt: skip
