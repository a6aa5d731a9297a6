"""What scripts that `memlint fix` has rewritten call, and scripts of your own need not.

What: stand-ins for what TRL and transformers have removed, and names that have another home by now.
Each is found in `memlint_runtime` itself too, so that scripts rewritten earlier run as ever.
`fuse` covers `fuse_causal_lm_loss` and `fuse_trl_losses`, `truncate` its two variants.
"""

from __future__ import annotations

from memlint_runtime import FORMER
from memlint_runtime import __getattr__ as __getattr__

__all__ = sorted(" ".join(FORMER.values()).split())
