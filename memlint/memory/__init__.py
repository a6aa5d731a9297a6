"""How much GPU memory a training run needs: ``estimate(settings)``.

Settings in (a mapping as in JSON, or ``Settings``), an ``Estimate`` out: phases with their bytes
by kind and by tensor, three totals as torch counts them, and every assumption made on the way.
No torch, no GPU, no download.
"""

from __future__ import annotations

from memlint.memory.assume import Assumption
from memlint.memory.estimates import Estimate, Interval, estimate, single_tensors
from memlint.memory.lifetimes import Tensor
from memlint.memory.settings import (
    Lora,
    Quantization,
    Settings,
    SettingsError,
    parse_assumption,
    read_settings,
    replace,
    with_assumption,
)
from memlint.memory.timeline import Phase

__all__ = [
    "Assumption",
    "Estimate",
    "Interval",
    "Lora",
    "Phase",
    "Quantization",
    "Settings",
    "SettingsError",
    "Tensor",
    "estimate",
    "parse_assumption",
    "read_settings",
    "replace",
    "single_tensors",
    "with_assumption",
]
