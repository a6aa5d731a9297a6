"""What the rest of a run decides for its recipe."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.source.record import NamedTuple


class Around(NamedTuple):
    """The surroundings of a recipe.

    method: the name of TRL's trainer, where the script says it. options: options of its
    configuration, as Python. overridden: keys that every command of the recipe sets anew.
    mixed: the launcher turns mixed precision on. by_trl: TRL's own program reads it.
    """

    method: str = ""
    options: Mapping[str, str] = {}
    overridden: frozenset[str] = frozenset()
    mixed: bool = False
    by_trl: bool = False
