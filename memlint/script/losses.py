"""Who computes the loss: what spares the full logits of a causal language model.

One list for all rules. Patching a model, a head or a trainer's loss counts wherever it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.model import Script

# Libraries whose losses hold no full logits.
_PACKAGES = ("liger_kernel", "cut_cross_entropy")
# What replaces the output head, or the loss of every model.
_REPLACE_HEAD = ("defer_logits", "cce_patch", "linear_cross_entropy", "apply_liger_kernel")
# Beginnings of Liger's names, which a project may hand on from a module of its own.
_LIGER = ("apply_liger_kernel_to_", "_apply_liger_kernel", "LigerFusedLinear", "LigerForCausalLM")


def avoids_logits(script: Script, calls: tuple[str, ...]) -> bool:
    """Whether the script, by one of ``calls`` or on every loss, avoids full logits."""
    if script.imports_package(*_PACKAGES) or script.method_calls(*_REPLACE_HEAD, *calls):
        return True
    return script.says(*_LIGER) and any(call.method.startswith(_LIGER) for call in script.calls)
