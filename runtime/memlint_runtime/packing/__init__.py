"""Packing: several sequences in one row of a fixed number of tokens, planned first, moved second."""

from __future__ import annotations

from memlint_runtime.packing.plan import PackingPlan, plan_packing

__all__ = ["PackingPlan", "plan_packing"]
