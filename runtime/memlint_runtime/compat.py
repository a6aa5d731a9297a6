"""What scripts that `memlint fix` has rewritten call, and scripts of your own need not.

What: stand-ins for what TRL and transformers have removed, and names that have another home by now.
Each is found in `memlint_runtime` itself too, so that scripts rewritten earlier run as ever.
`fuse` covers `fuse_causal_lm_loss` and `fuse_trl_losses`, `truncate` its two variants.
"""

from __future__ import annotations

from typing import Any

# Name -> the module of this package that defines it.
HOMES: dict[str, str] = {
    "DataCollatorForCompletionOnlyLM": "completions",
    "Patch": "integrations",
    "extend_arguments": "arguments",
    "fuse_causal_lm_loss": "losses",
    "fuse_trl_losses": "losses",
    "keep_on_device": "offload",
    "setup_chat_format": "chat_format",
    "sum_by_document": "collation",
    "truncate_prompt_and_completion": "truncation",
    "truncate_text": "truncation",
}

__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    from memlint_runtime import load

    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
