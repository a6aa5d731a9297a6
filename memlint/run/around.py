"""What the rest of a run decides for its recipe."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.recipes.document import Entry
from memlint.script.launcher import Launcher
from memlint.source.record import NamedTuple


class Around(NamedTuple):
    """The surroundings of a recipe.

    method: the name of TRL's trainer, where the script says it. options: options of its
    configuration, as data. overridden: keys that every command of the recipe sets anew.
    launcher: what its launchers decide. by_trl: TRL's own program reads it. entries: settings that
    the recipe does not have and all commands give alike. own_code: the script that reads it may
    train a model of a class that is not transformers'.
    """

    method: str = ""
    options: Mapping[str, object] = {}
    overridden: frozenset[str] = frozenset()
    launcher: Launcher = Launcher()
    by_trl: bool = False
    entries: tuple[Entry, ...] = ()
    own_code: bool = False
