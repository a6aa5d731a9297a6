"""The runs that a file describes: what ``estimate``, ``--fit`` and ``oom`` take.

A script is one run, or one for each launch command where these give it different settings; a recipe
likewise; a file of launch commands has a run for each command that trains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memlint.engine.project import project_of
from memlint.recipes.files import is_document, is_recipe_file
from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command, commands_in
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.rule import registry
from memlint.run.command_lines import Launches
from memlint.run.commanded import CommandReader, Tables, settings_of_run
from memlint.run.engine import Asked, Options, check_source
from memlint.run.recipes import check_recipe_source, recipes_of, why_passed_over
from memlint.run.smaller_batches import RULE as SMALLER
from memlint.source import Source
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.rule import Rule
    from memlint.rule.findings import Finding
    from memlint.run.runs import Runs

_ALL = ("ALL",)
_LONGEST = 100  # characters of a command that are shown
_LAUNCHERS = (Kind.ACCELERATE, Kind.DEEPSPEED)
# The file of a command, the command, and the settings of what it starts.
_Started = tuple[str, Command | None, dict[str, Any]]


class NoRunError(ValueError):
    """A file that describes no run."""


class Described(NamedTuple):
    """A run that a file describes.

    path: of the file. row: the line of its command, in the file at ``launched_in``; 0: none decides
    what others do not. said: the command's words. settings: the memory model's, as JSON has them.
    find: what rules of some codes (None: all) find in the file, with fixes that import the runtime
    package or without; None where the file is one of settings.
    """

    path: str
    settings: dict[str, Any]
    source: Source = Source("", "")
    find: Callable[[Iterable[str] | None, bool], list[Finding]] | None = None
    row: int = 0
    launched_in: str = ""
    said: str = ""

    @property
    def script(self) -> str | None:
        """The file in which fixes are made; None for settings, which have none."""
        return self.path if self.find is not None else None

    @property
    def place(self) -> str:
        """Where the run stands: ``train.sh:4``, or the file alone."""
        return f"{self.launched_in}:{self.row}" if self.row else self.path


def runs_in(path: str, tables: Tables, runs: Runs) -> list[Described]:
    """Return the runs of the file at ``path``, those with equal settings once.

    Raises:
        NoRunError: it describes none.
        ReadError, SyntaxError: it cannot be read.
    """
    reader = _Reader(path, tables, runs.at(os.path.abspath(path)))
    found = list(reader.of_recipes() if is_recipe_file(path) else reader.of_script())
    different: list[Described] = []
    for one in found:
        if all(one.settings != other.settings for other in different):
            different.append(one)
    if len(different) == 1 and not is_recipe_file(path):
        return [different[0]._replace(row=0)]
    return different


class _Reader:
    def __init__(self, path: str, tables: Tables, runs: Runs) -> None:
        self._path = path
        self._source = read_source(path)
        self._tables = tables
        self._runs = runs
        self._commands = CommandReader(self._source, tables, runs)

    def of_script(self) -> Iterator[Described]:
        """The script as all of its commands start it; as each does where several do."""
        source, place = self._source, self._runs.place
        api = self._tables(self._path, source)
        launches = Launches(lambda: self._runs)
        given = launches.of(place, source.data) if self._path.endswith(".py") else None
        settings = self._commands.of_script(source, api, given)
        if settings is None:
            raise NoRunError(f"{self._path} trains nothing that memlint recognizes")
        project = project_of(place, source.data, self._runs.modules)

        def find(codes: Iterable[str] | None, runtime: bool) -> list[Finding]:
            around: Options = {"project": project, "command_line": given, "runtime": runtime}
            around["unused_suppressions"] = False
            return check_source(source, _rules(codes), api, on_error=_pass_over, **around)

        several = list(launches.each(place)) if given is not None else []
        if len(several) < 2:
            yield Described(self._path, settings, source, find)
            return
        for file, command, one in several:
            own = self._commands.of_script(source, api, one)
            if own is not None:
                yield self._described(file, command, own, find)

    def of_recipes(self) -> Iterator[Described]:
        """The recipe as each of its commands runs it, or what each command of the file starts."""
        source, runs = self._source, self._runs
        api = self._tables(self._path, source)
        recipes = recipes_of(source, runs)

        def find(codes: Iterable[str] | None, runtime: bool) -> list[Finding]:
            asked = Asked(_rules(codes), api, on_error=_pass_over)
            return check_recipe_source(source, recipes, asked, runs, unused_suppressions=False)

        found = self._of_document(recipes, api) if is_document(self._path) else self._of_commands()
        for file, command, settings in found:
            if command is None:
                yield Described(self._path, settings, source, find)
            else:
                yield self._described(file, command, settings, find)

    def _of_document(self, recipes: Sequence[Recipe], api: Api) -> Iterator[_Started]:
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
            settings = settings_of_run(run, api, around, runs)
            if settings is None:
                raise NoRunError(f"{path} trains nothing that memlint recognizes")
            command = launch.command if launch is not None else None
            yield launch.path if launch is not None else path, command, settings

    def _of_commands(self) -> Iterator[_Started]:
        read = self._commands
        found = [(one, read.settings(one)) for one in commands_in(self._source)]
        if all(settings is None for _, settings in found):
            why = why_passed_over(self._source, self._runs)
            if read.missing:
                why = f"starts {read.missing[0]}"
            raise NoRunError(f"{self._path} {why}")
        for command, settings in found:
            if settings is not None:
                yield self._path, command, settings

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


def _rules(codes: Iterable[str] | None) -> tuple[Rule, ...]:
    """The rules of these codes, or all, with the one that ``--fit`` alone asks."""
    return (*registry.load(registry.selected(_ALL) if codes is None else codes), SMALLER)


def _pass_over(rule: Rule, error: Exception) -> None:
    """A rule that fails finds nothing here; ``check`` says it."""
