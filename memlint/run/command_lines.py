"""What the launch commands of a project give to a script, and what their launchers decide."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from memlint.engine.command_line import VARIABLE, Given
from memlint.recipes.files import may_launch, says_commands
from memlint.rule.findings import Finding, Fix
from memlint.script.launcher import Launcher, joined
from memlint.source import Place, Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.digests import digest_of
from memlint.source.kept import kept
from memlint.source.patterns import lazy_pattern
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import folders_above, is_root

if TYPE_CHECKING:
    from memlint.recipes.launch import Command
    from memlint.run.runs import Runs

PARSERS = lazy_pattern(
    rb"parse_args\(|parse_known_args\(|HfArgumentParser|TrlParser"
    rb"|\bDEFINE_\w+\(|load_dotenv|simple_parsing|\btyro\b|jsonargparse"
    rb"|sys\.argv\b|import click|\btyper\b|fire\.Fire|hydra\.main|from_cli\("
    rb"|environ(?:\.get\(|\[)|getenv\("
)
# A script without any of these is the same under all launchers.
LAUNCHED = lazy_pattern(
    rb"Trainer\b|Accelerator\b|fully_shard|DataParallel\b|deepspeed|tp_plan|distributed_config"
    rb"|PartialState|get_world_size|WORLD_SIZE|device_count"
)
MAX_BYTES = 300_000
_MAX_COMMANDS = 40
_MAX_PARENTS = 4
_MAX_FILES = 200
_MAX_FOLDERS = 60


def in_script(findings: Sequence[Finding]) -> list[Finding]:
    """What is found in the script itself; fixes that reach what commands give become advice.

    What is found at a setting of theirs and fixed in the script stands where it is fixed.
    """
    found: list[Finding] = []
    for each in findings:
        if not isinstance(each.span, Place):
            reaches = any(isinstance(span, Place) for span in _spans(each.fix))
            found.append(each.as_advice() if reaches else each)
        elif (place := place_of_fix(each)) is not None:
            found.append(each._replace(span=place))
    return found


def place_of_fix(finding: Finding) -> Span | None:
    """Where the fix begins, if all of it is in the script; else None."""
    spans = _spans(finding.fix)
    return spans[0] if spans and not any(isinstance(span, Place) for span in spans) else None


def _spans(fix: Fix | None) -> list[Span]:
    edits = fix.edits if fix is not None else ()
    return [one for edit in edits for one in vars(edit).values() if isinstance(one, Span)]


class CommandSettings(NamedTuple):
    """What launch commands give to a script.

    settings: None where they may give nothing. relied_on: the files of these
    commands, those that they name, and the folders that were searched for more. launcher: what is
    decided beside the settings.
    """

    settings: Mapping[str, Given] | None
    relied_on: tuple[str, ...]
    launcher: Launcher = Launcher()

    def digests(self) -> tuple[tuple[str, str], ...]:
        """What the settings rely on, each with a digest."""
        return tuple((path, digest_of(path)) for path in self.relied_on)


class Launches:
    """The launch commands around scripts; each file of commands is read once.

    runs: those of the project, imported where there is a file of commands: by most scripts there
    is none.
    """

    def __init__(self, runs: Callable[[], Runs]) -> None:
        self._runs = runs

    def of(self, place: str, data: bytes) -> CommandSettings | None:
        """What all commands that start the script at ``place`` give to it.

        A setting that they give differently, or that some of them do not give, is not known. None
        where the script is the same under all of them.
        """
        parses = PARSERS.search(data) is not None
        if not parses and LAUNCHED.search(data) is None:
            return None
        script = os.path.abspath(place)
        starting, is_sure = self._starting(script)
        if starting:
            return self._given(script, starting, parses=parses, is_sure=is_sure)
        # A page shows what shards; the values of its examples are anybody's.
        pages, _ = self._starting(script, pages=True)
        if pages:
            shown = self._given(script, pages, parses=False, is_sure=False)
            launcher = shown.launcher._replace(expandable=None)
            shards = launcher.engine and not launcher.unseen
            return shown._replace(settings=None, launcher=launcher if shards else joined([]))
        return CommandSettings(None, tuple(_watched(script)), joined([]))

    def each(self, place: str) -> Iterator[tuple[str, Command, CommandSettings]]:
        """Yield the commands that start the script at ``place``, with their files and settings."""
        script = os.path.abspath(place)
        starting, is_sure = self._starting(script)
        for file, one in starting:
            given = self._given(script, [(file, one)], parses=True, is_sure=is_sure)
            yield file, one, given

    def given_by(self, script: str, file: str, command: Command) -> CommandSettings:
        """Return what a command in ``file`` gives to the script at the path ``script``."""
        return self._given(script, [(file, command)], parses=True, is_sure=True)

    def _given(
        self, script: str, starting: list[tuple[str, Command]], *, parses: bool, is_sure: bool
    ) -> CommandSettings:
        from memlint.run.launchers import launcher_of

        runs = self._runs().at(script)
        launchers = [
            launcher_of(one, runs.files(file))._replace(
                complete=parses and is_sure and is_complete(one, file)
            )
            for file, one in starting
        ]
        launcher = joined(launchers)
        settings = _joined(
            [_settings(one, file, runs) if parses else _variables(one) for file, one in starting]
        )
        files = dict.fromkeys(file for file, _ in starting)
        folders = dict.fromkeys((*_watched(script), *map(os.path.dirname, files)))
        return CommandSettings(
            settings if settings or launcher.complete else None,
            (*folders, *files, *runs.used),
            launcher,
        )

    def _starting(
        self, script: str, *, pages: bool = False
    ) -> tuple[list[tuple[str, Command]], bool]:
        """The commands that start a script, or those of pages that people read, with their files,
        and whether no other may."""
        files = [file for file in self._around(script) if file.endswith(".md") is pages]
        nearby = [(file, one) for file in files for one in self._of_file(file)]
        starting = [(file, one) for file, one in nearby if _may_start(one, file, script)]
        is_sure = all(one.target is not None and one.target.name is not None for _, one in nearby)
        return starting, is_sure

    def _around(self, script: str) -> list[str]:
        """The files of commands in the script's folder, those above, and the folders in them."""
        files: list[str] = []
        for folder in _folders(script):
            files += self._listed(folder)[0]
            for inner in self._listed(folder)[1][:_MAX_FOLDERS]:
                files += self._listed(inner)[0]
        return list(dict.fromkeys(files))[:_MAX_FILES]

    @kept
    def _listed(self, folder: str) -> tuple[list[str], list[str]]:
        """The files of commands in a folder, and the folders in it."""
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.path)
        except OSError:
            ordered = []
        inner = [each for each in ordered if each.name[:1] != "."]
        named = [each for each in ordered if says_commands(each.name)]
        return (
            [one.path for one in named if os.path.isfile(one)],
            [each.path for each in inner if each.is_dir(follow_symlinks=False)],
        )

    @kept
    def _of_file(self, path: str) -> list[Command]:
        try:
            data = read_regular(path, MAX_BYTES)
            if not may_launch(data):
                return []
            if path.endswith(".md"):
                from memlint.run.runs import launches_in

                return [one.command for one in launches_in(path) if one.command.starts_file]
            return commands_of(read_source(path, data))
        except (OSError, ReadError):
            return []


def _settings(command: Command, beside: str, runs: Runs) -> dict[str, Given]:
    """What a command gives to its script, each option with its place: with the settings of the
    recipe that it hands on, which are of another file."""
    from memlint.run.trl_program import Written

    given = runs.settings_of(command, beside).items()
    settings = _variables(command) | {name: Given(value) for name, value in given}
    settings |= {str(place): Given(word) for place, word in enumerate(command.positionals)}
    for flag in command.settings:
        written = Written(command.span, flag.name)
        places = Place(flag.span, written), Place(flag.option_span, written)
        value = None if flag.form == "removal" else flag.value
        settings[flag.name] = Given(value, *places[: 2 * (flag.form == "option")])
    return settings


def _variables(command: Command) -> dict[str, Given]:
    """The variables of its environment, which modules that the script imports may read."""
    return {f"{VARIABLE}{flag.name}": Given(flag.value) for flag in command.environment}


def _joined(every: Sequence[Mapping[str, Given]]) -> dict[str, Given]:
    """The settings that commands give; not known where they differ."""
    if len(every) == 1:
        return dict(every[0])
    values = [{name: setting.value for name, setting in settings.items()} for settings in every]
    return {
        name: Given(value if all(other.get(name) == value for other in values) else None)
        for settings in values
        for name, value in sorted(settings.items())
    }


def is_complete(command: Command, file: str) -> bool:
    """True if a command certainly starts its script, and all that it gives to it is known."""
    return (
        not (command.has_unknown_arguments or command.positionals)
        and all(flag.form == "option" and flag.name != "config" for flag in command.settings)
        and next(paths_of(command, file), None) is not None
    )


def _may_start(command: Command, file: str, script: str) -> bool:
    """True if a command starts the script, or one of its name in a folder that is not known."""
    target, name = command.target, os.path.basename(script)
    if target is None or name not in (target.name, *map(os.path.basename, command.scripts)):
        return False
    paths = list(paths_of(command, file))
    if not paths:
        return target.kind == "script"
    started = next(filter(os.path.isfile, paths), None)
    # A folder may have been renamed since the command was written in it.
    is_beside = target.kind == "script" and os.path.dirname(file) == os.path.dirname(script)
    return started == script or (started is None and is_beside)


def commands_of(source: Source) -> list[Command]:
    """The commands that start a script."""
    from memlint.recipes.launch import commands_in

    scripts = (one for one in commands_in(source) if one.starts_file)
    return list(islice(scripts, _MAX_COMMANDS))


def paths_of(command: Command, place: str) -> Iterator[str]:
    """The files that a command in the file at ``place`` may start, the likeliest first."""
    for folder in _folders(place) if command.folder is not None else ():
        for script in command.scripts:
            within = os.path.join(command.folder or "", script)
            if script.endswith(".py") and not os.path.isabs(within):
                yield os.path.normpath(os.path.join(folder, within))


def _watched(script: str) -> list[str]:
    """The folders in which a new file of commands would count: without a project's root, no more
    than the folder above, whose neighbours change all the time."""
    folders = list(_folders(script))
    return folders if is_root(folders[-1]) else folders[:2]


def _folders(place: str) -> Iterator[str]:
    """The folders that a file's commands may be run in: its own, and those up to the root."""
    own = os.path.dirname(os.path.abspath(place))
    for folder in islice(folders_above(own), _MAX_PARENTS):
        yield folder
        if is_root(folder):
            return
