"""The one door into other libraries' objects: finding what is inside them, and changing it."""

from __future__ import annotations

from memlint_runtime.integrations.modes import require_model, unwrap
from memlint_runtime.integrations.patching import Patch, undo

__all__ = ["Patch", "require_model", "undo", "unwrap"]
