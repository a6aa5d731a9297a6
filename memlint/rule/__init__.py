"""The rule interface: all that a rule may import, besides the standard library.

A rule is a pure function from a script to findings, with the words that explain it. It lives in
one file of ``memlint_rules`` as ``RULE``; its examples are its tests and its documentation page.

The names are imported with the first one that is used: what only needs a finding or an edit does
not pay for the script model, and what looks at scripts does not pay for recipes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlint.rule.interface import *  # noqa: F403 - the lists of names are there
    from memlint.rule.recipe_interface import *  # noqa: F403

# The modules whose names these are, in the order in which they are searched.
PARTS = ("interface", "recipe_interface")


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name not in PARTS:
        for part in PARTS:
            module = import_module(f"memlint.rule.{part}")
            if name in module.__all__:
                names = globals()
                for each in module.__all__:
                    names[each] = getattr(module, each)
                return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
