"""The settings of the runs that recipes and launch commands describe, as JSON has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memlint.engine.project import project_of
from memlint.recipes.commands import kind_of_command, recipe_of
from memlint.recipes.document import values
from memlint.run.command_lines import CommandSettings, Launches, paths_of
from memlint.run.deep import deeply
from memlint.run.engine import Options, read_script
from memlint.run.trl_recipes import settings_of_trl
from memlint.runs.devices import by_deepspeed, by_file_name
from memlint.runs.recipe_settings import settings_of_recipe
from memlint.runs.run_settings import joined, settings_of
from memlint.source import Source
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.recipes.launch import Command
    from memlint.recipes.recipe import Recipe
    from memlint.run.runs import Around, Runs

# The tables of the versions of a file, which may pin some itself.
Tables = Callable[[str, Source | None], "Api"]


def settings_of_run(recipe: Recipe, api: Api, around: Around, runs: Runs) -> dict[str, Any] | None:
    """Return the settings of a recipe's training; None where it trains nothing that is known."""
    files = runs.files(runs.place)
    if not recipe.kind.fills_trl:
        known = recipe.run_with(around.overridden) if around.overridden else recipe
        return settings_of_recipe(known, api, around.launcher, files)
    settings = settings_of_trl(recipe, api, around)
    word = recipe.option("deepspeed").value
    if settings is None or not isinstance(word, str) or around.launcher.engine:
        return settings
    dtype = str(settings.get("compute_dtype", "")) if settings.get("autocast") else ""
    file = files(word)
    shared = by_file_name(word, dtype, "zero2")
    if file is not None:
        settings.get("notes", {}).pop("sharding", None)
        shared = by_deepspeed(values(file.document.root), dtype)
    return joined(settings, shared)


def settings_of_recipe_file(recipe: Recipe, api: Api, runs: Runs) -> dict[str, Any] | None:
    """Return the settings of a recipe's training, as far as all of its commands agree."""
    every = [settings_of_run(run, api, around, runs) for _, run, around in runs.each_run(recipe)]
    if all(one == every[0] for one in every):
        return every[0]
    return settings_of_run(recipe, api, runs.around(recipe), runs)


class CommandReader:
    """Reads what the launch commands of one file train. missing: why some train nothing."""

    def __init__(self, source: Source, tables: Tables, runs: Runs) -> None:
        self._source = source
        self._tables = tables
        self._runs = runs
        self._launches = Launches(lambda: runs)
        self.missing: list[str] = []

    def settings(self, command: Command) -> dict[str, Any] | None:
        """The settings of what a command starts; None where it trains nothing that is known."""
        target = command.target
        if kind_of_command(command) is not None:
            return self._of_recipe(command)
        if target is None or not command.starts_file:
            return None
        place = self._runs.place
        script = next(filter(os.path.isfile, paths_of(command, place)), None)
        if script is None:
            if target.kind == "script":
                self.missing.append(f"{target.text or 'a script'}, which is not here")
            return None
        try:
            source = read_source(script)
            given = self._launches.given_by(script, place, command)
            settings = self.of_script(source, self._tables(script, source), given)
        except (ReadError, SyntaxError):
            settings = None
        if settings is None:
            self.missing.append(f"{target.text}, which trains nothing that memlint recognizes")
        return settings

    def of_script(
        self, source: Source, api: Api, given: CommandSettings | None
    ) -> dict[str, Any] | None:
        """The settings of a script with what launch commands give to it.

        Raises ``SyntaxError`` as ``ast.parse`` does.
        """
        project = project_of(os.path.abspath(source.path), source.data, self._runs.modules)
        options: Options = {"project": project, "command_line": given}
        return deeply(lambda: settings_of(read_script(source, api, options)))

    def _of_recipe(self, command: Command) -> dict[str, Any] | None:
        """Those of a command over the recipe that it names, or of that recipe alone."""
        runs = self._runs
        base = runs.recipe_of(runs.place, command)
        recipe = recipe_of(self._source, command, base) or base
        if recipe is None or (base is None and command.recipe is not None):
            self.missing.append(f"`{command.recipe}`, a recipe that is not here: give its file")
            return None
        around = runs.around_command(recipe, command)
        api = self._tables(self._source.path, self._source)
        return settings_of_run(runs.of_release(recipe), api, around, runs)
