"""The rule interface: all that a rule may import, besides the standard library.

A rule is a pure function from a script to findings, with the words that explain it. It lives in
one file of ``memlint_rules`` as ``RULE``; its examples are its tests and its documentation page.

The names are imported with the first one that is used: what only needs a finding does not pay for
the script model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlint.rule.interface import *  # noqa: F403 - what it imports it offers


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name != "interface":
        module = import_module("memlint.rule.interface")
        offered = {each: one for each, one in vars(module).items() if each[0] != "_"}
        if name in offered:
            globals().update(offered)
            return offered[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
