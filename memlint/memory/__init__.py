"""How much GPU memory a training run needs: ``estimate(settings)``.

Settings in (a mapping as in JSON, or ``Settings``), an ``Estimate`` out: phases with their bytes
by kind and by tensor, three totals as torch counts them, and every assumption made on the way.
No torch, no GPU, no download.

Each name is imported with its first use: prices need a part of the model alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "Assumption": "assume",
    "Estimate": "estimates",
    "Interval": "estimates",
    "Phase": "timeline",
    "Tensor": "lifetimes",
    "estimate": "estimates",
    "single_tensors": "estimates",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = _HOMES.get(name, "settings")
        return getattr(import_module(f"memlint.memory.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
