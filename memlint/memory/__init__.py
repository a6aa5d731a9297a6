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
    from memlint.memory.assume import Assumption as Assumption
    from memlint.memory.estimates import Estimate as Estimate
    from memlint.memory.estimates import Interval as Interval
    from memlint.memory.estimates import estimate as estimate
    from memlint.memory.estimates import single_tensors as single_tensors
    from memlint.memory.lifetimes import Tensor as Tensor
    from memlint.memory.settings import Lora as Lora
    from memlint.memory.settings import Quantization as Quantization
    from memlint.memory.settings import Settings as Settings
    from memlint.memory.settings import SettingsError as SettingsError
    from memlint.memory.settings import parse_assumption as parse_assumption
    from memlint.memory.settings import read_settings as read_settings
    from memlint.memory.settings import replace as replace
    from memlint.memory.settings import with_assumption as with_assumption
    from memlint.memory.timeline import Phase as Phase

_HOMES = {
    **dict.fromkeys(("Estimate", "Interval", "estimate", "single_tensors"), "estimates"),
    "Assumption": "assume",
    "Phase": "timeline",
    "Tensor": "lifetimes",
}


def __getattr__(name: str) -> Any:
    module = import_module(f"memlint.memory.{_HOMES.get(name, 'settings')}")
    if name.startswith("_") or not hasattr(module, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)
