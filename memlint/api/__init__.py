"""Which options, names and defaults the libraries have in each of their releases.

The tables are extracted from released wheels (``memlint.api.extract``) and shipped as data; what
they cannot show is written by hand in ``memlint.api.knowledge``. A rule asks an ``Api`` at a
``Target`` and never hard-codes a version. Nothing here imports torch, transformers or trl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlint.api.lookup import Api
from memlint.api.signatures import (
    REQUIRED,
    Expression,
    History,
    Kind,
    Parameter,
    Signature,
    Unset,
)
from memlint.api.target_versions import Resolved, Target, newest, parse_target

if TYPE_CHECKING:
    from memlint.api.successors import (
        Advice,
        Build,
        Environment,
        Inline,
        Move,
        Remove,
        Rename,
        Replace,
        Runtime,
        Successor,
    )

__all__ = [
    "REQUIRED",
    "Advice",
    "Api",
    "Build",
    "Environment",
    "Expression",
    "History",
    "Inline",
    "Kind",
    "Move",
    "Parameter",
    "Remove",
    "Rename",
    "Replace",
    "Resolved",
    "Runtime",
    "Signature",
    "Successor",
    "Target",
    "Unset",
    "newest",
    "parse_target",
]


def __getattr__(name: str) -> Any:
    # Successors are imported with the first finding that wants one.
    if name in __all__:
        from memlint.api import successors

        return getattr(successors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
