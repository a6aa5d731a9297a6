"""Packing: several sequences in one row of at most so many tokens; planned first, then moved."""

from __future__ import annotations

from memlint_runtime.packing.dataset import pack_dataset
from memlint_runtime.packing.plan import PackingPlan, plan_packing
from memlint_runtime.packing.stream import StreamingPacker

__all__ = ["PackingPlan", "StreamingPacker", "pack_dataset", "plan_packing"]
