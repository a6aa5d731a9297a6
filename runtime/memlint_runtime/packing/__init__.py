"""Packing: several sequences in one row of at most so many tokens; planned first, then moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint_runtime import names_of

if TYPE_CHECKING:
    from memlint_runtime.packing.dataset import pack_dataset
    from memlint_runtime.packing.padded import PackedDataset
    from memlint_runtime.packing.plan import PackingPlan, plan_packing
    from memlint_runtime.packing.stream import StreamingPacker

__all__ = ["PackedDataset", "PackingPlan", "StreamingPacker", "pack_dataset", "plan_packing"]

# Imported when first used: a plan needs numpy alone, the stream is a dataset of torch's.
_HOMES = {
    "PackedDataset": "padded",
    "PackingPlan": "plan",
    "StreamingPacker": "stream",
    "pack_dataset": "dataset",
    "plan_packing": "plan",
}
__getattr__ = names_of(__name__, _HOMES)
