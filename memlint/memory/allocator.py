"""What torch's caching allocator reserves beyond what is allocated."""

from __future__ import annotations

from memlint.memory.settings import Settings
from memlint.memory.tape import Replay


def reserved_bytes(
    settings: Settings, phases: tuple[object, ...], block: Replay
) -> tuple[int, int, int]:
    """Reserved bytes: best estimate, least, most."""
    peak = max(phase.total for phase in phases)  # type: ignore[attr-defined]
    return int(peak * 1.1), peak, int(peak * 1.35)
