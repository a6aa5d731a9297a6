"""The runs that a file describes: what ``estimate``, ``--fit`` and ``oom`` take.

A script is one run, or one for each launch command where these give it different settings; a recipe
likewise; a file of launch commands has a run for each command that trains.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from memlint.api.lookup import Api
from memlint.engine.project import project_of
from memlint.recipes.commands import kind_of_command, name_of, recipe_of
from memlint.recipes.files import is_document, is_recipe_file
from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command, commands_in
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.rule.findings import Finding
from memlint.run.checked import deeply
from memlint.run.command_lines import CommandSettings, Launches, paths_of
from memlint.run.description import Described
from memlint.run.engine import Asked, examine, script_of
from memlint.run.runs import Runs
from memlint.runs.run_settings import settings_of
from memlint.source import Source
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source

_ALL = ("ALL",)
_LONGEST = 100  # characters of a command that are shown
_LAUNCHERS = (Kind.ACCELERATE, Kind.DEEPSPEED)
# The tables of the versions of a file, which may pin some itself.
Tables = Callable[[str, Source | None], "Api"]
# The file of a command, the command, and the settings of what it starts.
_Started = tuple[str, Command | None, dict[str, Any]]


class NoRunError(ValueError):
    """A file that describes no run."""


def runs_in(path: str, tables: Tables, runs: Runs, data: bytes | None = None) -> list[Described]:
    """Return the runs of the file at ``path`` (or of ``data``, named so), those with equal settings
    once.

    Raises:
        NoRunError: it describes none.
        ReadError, SyntaxError: it cannot be read.
    """
    reader = _Reader(read_source(path, data), tables, runs.at(os.path.abspath(path)))
    found = list(reader.of_recipes() if is_recipe_file(path) else reader.of_script())
    different: list[Described] = []
    for one in found:
        if all(one.settings != other.settings for other in different):
            different.append(one)
    if len(different) == 1 and not is_recipe_file(path):
        return [different[0]._replace(row=0)]
    return different


class _Reader:
    """missing: why some commands of the file train nothing."""

    def __init__(self, source: Source, tables: Tables, runs: Runs) -> None:
        self._path = path = source.path
        self._source = source
        self._tables = tables
        self._api = tables(path, source)
        self._runs = runs
        self._launches = Launches(lambda: runs)
        self._missing: list[str] = []

    def of_script(self) -> Iterator[Described]:
        """The script as all of its commands start it; as each does where several do."""
        source, place, api = self._source, self._runs.place, self._api
        given = self._launches.of(place, source.data) if self._path.endswith(".py") else None
        several = list(self._launches.each(place)) if given is not None else []
        pages = () if several else self._runs.launches(shown=True)
        if len(pages) == 1 and given is not None:
            given = self._launches.given_by(place, pages[0].path, pages[0].command)
        settings = self._settings(source, api, given)
        if settings is None:
            raise NoRunError(f"{self._path} trains nothing that memlint recognizes")
        project = project_of(place, source.data, self._runs.modules)

        def find(codes: Iterable[str] | None, runtime: bool) -> list[Finding]:
            return examine(source, _asked(codes, api, runtime), project, given).findings

        if len(several) < 2:
            yield Described(self._path, settings, source, find)
            return
        for file, command, one in several:
            own = self._settings(source, api, one)
            if own is not None:
                yield self._described(file, command, own, find)

    def _settings(
        self, source: Source, api: Api, given: CommandSettings | None
    ) -> dict[str, Any] | None:
        """The settings of a script with what launch commands give to it.

        Raises ``SyntaxError`` as ``ast.parse`` does.
        """
        project = project_of(os.path.abspath(source.path), source.data, self._runs.modules)
        return deeply(lambda: settings_of(script_of(source, api, project, given)))

    def of_recipes(self) -> Iterator[Described]:
        """The recipe as each of its commands runs it, or what each command of the file starts."""
        from memlint.run.recipes import examine_recipe_source, recipes_of

        source, runs, api = self._source, self._runs, self._api
        recipes = recipes_of(source, runs)

        def find(codes: Iterable[str] | None, runtime: bool) -> list[Finding]:
            return examine_recipe_source(source, recipes, _asked(codes, api), runs).findings

        found = self._of_document(recipes) if is_document(self._path) else self._of_commands()
        for file, command, settings in found:
            if command is None:
                yield Described(self._path, settings, source, find)
            else:
                yield self._described(file, command, settings, find)

    def _of_document(self, recipes: Sequence[Recipe]) -> Iterator[_Started]:
        from memlint.run.launches import settings_of_run
        from memlint.run.recipes import why_passed_over

        runs, path = self._runs, self._path
        # To read it by its keys changes nothing, whoever else may read it.
        recipe = recipes[0] if recipes else read_recipe(self._source)
        if recipe is None:
            raise NoRunError(f"{path} {why_passed_over(self._source, runs)}")
        if recipe.kind in _LAUNCHERS:
            raise NoRunError(
                f"{path} configures {recipe.kind.value} and names no model: give the script, the "
                "recipe or the launch command that uses it"
            )
        for launch, run, around in runs.each_run(recipe):
            settings = settings_of_run(run, self._api, around, runs)
            if settings is None:
                raise NoRunError(f"{path} trains nothing that memlint recognizes")
            command = launch.command if launch is not None else None
            yield launch.path if launch is not None else path, command, settings

    def _of_commands(self) -> Iterator[_Started]:
        from memlint.run.recipes import why_passed_over

        found = [(one, self._of_command(one)) for one in commands_in(self._source)]
        if all(settings is None for _, settings in found):
            why = why_passed_over(self._source, self._runs)
            why = f"starts {self._missing[0]}" if self._missing else why
            raise NoRunError(f"{self._path} {why}")
        for command, settings in found:
            if settings is not None:
                yield self._path, command, settings

    def _of_command(self, command: Command) -> dict[str, Any] | None:
        """The settings of what a command starts; None where it trains nothing that is known."""
        target, place = command.target, self._runs.place
        if kind_of_command(command) is not None:
            return self._of_recipe(command)
        if target is None or not command.starts_file:
            return None
        script = next(filter(os.path.isfile, paths_of(command, place)), None)
        if script is None:
            if target.kind == "script":
                self._missing.append(f"{target.text or 'a script'}, which is not here")
            return None
        try:
            source = read_source(script)
            given = self._launches.given_by(script, place, command)
            settings = self._settings(source, self._tables(script, source), given)
        except (ReadError, SyntaxError):
            settings = None
        if settings is None:
            self._missing.append(f"{target.text}, which trains nothing that memlint recognizes")
        return settings

    def _of_recipe(self, command: Command) -> dict[str, Any] | None:
        """Those of a command over the recipe that it names, or of that recipe alone."""
        from memlint.run.launches import settings_of_run

        runs = self._runs
        base = runs.recipe_of(runs.place, command)
        recipe = recipe_of(self._source, command, base)
        recipe = recipe or (base and base._replace(name=name_of(command)))
        if recipe is None or (base is None and command.recipe is not None):
            self._missing.append(f"`{command.recipe}`, a recipe that is not here: give its file")
            return None
        around = runs.around_command(recipe, command)
        return settings_of_run(runs.of_release(recipe), self._api, around, runs)

    def _described(
        self,
        file: str,
        command: Command,
        settings: dict[str, Any],
        find: Callable[[Iterable[str] | None, bool], list[Finding]],
    ) -> Described:
        source = self._source if file == self._path else read_source(file)
        row = source.location(command.span.start).row
        said = " ".join(source.slice(command.span).replace("\\\n", " ").split())
        said = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 3]}..."
        shown = os.path.relpath(file) if os.path.isabs(file) else file
        return Described(self._path, settings, self._source, find, row, shown, said)


def _asked(codes: Iterable[str] | None, api: Api, runtime: bool = True) -> Asked:
    """The rules of these codes, or all, with the one that ``--fit`` alone asks. A rule that fails
    finds nothing here; ``check`` says it."""
    from memlint.rule import registry
    from memlint.run.smaller_batches import RULE as SMALLER

    rules = (*registry.load(registry.selected(_ALL) if codes is None else codes), SMALLER)
    asked = Asked(rules, api, on_error=lambda rule, error: None, runtime=runtime)
    return asked._replace(unused_suppressions=False, to_fit=True)
