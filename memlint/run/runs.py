"""Runs: a script, the recipe that it is given, and the files of the launcher, seen together.

Launch commands of a project name the recipe that they start, the script that reads it, and the
configurations of accelerate and DeepSpeed. What these decide for a recipe is its surroundings:
sharding, mixed precision, the trainer, keys that the command line sets anew. Only what all commands
of a recipe agree on is used.

Cost: the launch files of a project are read once, when its first recipe is checked; their number,
size and depth are bounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from memlint.recipes.document import DocumentError
from memlint.recipes.keys import program_of
from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command, kind_of, read_commands
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.run.around import Around
from memlint.run.launchers import Files, launcher_of
from memlint.script.launcher import joined
from memlint.source import Source
from memlint.source.bounded import read_regular_text
from memlint.source.digests import digest_of
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "uv.lock")
_SKIPPED = frozenset({"node_modules", "site-packages", "venv", "build", "dist", "__pycache__"})
_MAX_FOLDERS, _MAX_FILES, _MAX_DEPTH, _MAX_BYTES = 600, 200, 6, 256 << 10
_TRAINER = lazy_pattern(r"\b((?:SFT|DPO|GRPO|KTO|ORPO|CPO|Reward|RLOO)Trainer)\s*\(")
_ZERO_3 = '{"zero_optimization": {"stage": 3}}'


# The release of a program (``torchtune``) for a recipe at a place.
Release = Callable[[str, str], str | None]


class Launch(NamedTuple):
    """A launch command and the absolute path of its file."""

    path: str
    command: Command


class Project(NamedTuple):
    """A project's folder and its launch commands."""

    root: str
    launches: tuple[Launch, ...]
    files: tuple[str, ...]


class Runs:
    """The runs of the projects that were looked at; ``at`` is asked for one file of one."""

    def __init__(
        self,
        place: str = "",
        known: dict[str, Project] | None = None,
        release: Release | None = None,
    ) -> None:
        self._place = place
        self._release = release
        self._known: dict[str, Project] = {} if known is None else known
        self._used: list[str] = []
        # The scripts that commands of the place start, or would if they were there.
        self.scripts: set[str] = set()

    def at(self, place: str) -> Runs:
        """The same runs, asked for the file at ``place``, an absolute path."""
        return Runs(place, self._known, self._release)

    def of_release(self, recipe: Recipe) -> Recipe:
        """A recipe for the release of its program that the project has."""
        program = program_of(recipe.kind)
        if program is None or self._release is None:
            return recipe
        return recipe.of_release(self._release(self._place, program))

    @property
    def used(self) -> tuple[str, ...]:
        """The files that were looked for, and read where they are there."""
        return tuple(dict.fromkeys(self._used))

    @property
    def place(self) -> str:
        """The absolute path of the file that is asked for."""
        return self._place

    def launches(self) -> tuple[Launch, ...]:
        """The commands that are given the recipe, or start the script, at the place."""
        return tuple(
            launch
            for launch in self._project().launches
            if _names(launch.command.recipe, self._place)
            or (
                launch.command.target is not None
                and launch.command.target.kind == "script"
                and _names(launch.command.target.text, self._place)
            )
        )

    def row(self, launch: Launch) -> int:
        """The line of its file on which a command begins."""
        source = Source(launch.path, self._text(launch.path))
        return source.location(launch.command.span.start).row

    def around(self, recipe: Recipe) -> Around:
        """What the run decides for the recipe at the place."""
        if recipe.kind in (Kind.ACCELERATE, Kind.DEEPSPEED):
            return Around()
        if recipe.command is not None:
            launcher = launcher_of(recipe.command, self.files(self._place))
            return Around(recipe.name, launcher=launcher, by_trl=bool(recipe.name))
        launches = self.launches()
        methods = {self._method(launch) for launch in launches}
        overridden = [{flag.name for flag in launch.command.settings} for launch in launches]
        own = recipe.option("deepspeed").value
        stage = self._stage_of_file(own) if isinstance(own, str) else None
        return Around(
            methods.pop() if len(methods) == 1 else "",
            {"deepspeed": _ZERO_3} if stage == 3 else {},
            frozenset(set.intersection(*overridden)) if overridden else frozenset(),
            joined([launcher_of(one.command, self.files(one.path)) for one in launches]),
            bool(launches) and all(launch.command.starts == "trl" for launch in launches),
        )

    def recipe_of(self, path: str, command: Command) -> Recipe | None:
        """The recipe that a command names, if it is in the project."""
        text = command.recipe
        found = self._find(text, self._place or path) if text else None
        return self._read(found) if found else None

    def relied_on(self, path: str) -> tuple[tuple[str, str], ...]:
        """The files that what was said depends on, each with a digest."""
        files = dict.fromkeys((*self._project().files, *self._used, *sorted(self.scripts)))
        return tuple((each, digest_of(each)) for each in files if each != self._place)

    # -- files of the run ------------------------------------------------------------------------

    def _method(self, launch: Launch) -> str:
        """The trainer of TRL that a command comes to; empty where it is not known."""
        command = launch.command
        if command.target is None or command.target.text is None:
            return ""
        if command.starts == "trl":
            return command.target.text
        path = self._find(command.target.text, launch.path)
        if command.target.kind != "script" or path is None:
            return ""
        names = set(_TRAINER.findall(self._text(path)))
        return names.pop() if len(names) == 1 else ""

    def _stage_of_file(self, text: str) -> int | None:
        config = self.files(self._place)(text)
        stage = config.option("zero_optimization.stage").value if config else None
        return stage if isinstance(stage, int) else None

    def files(self, beside: str) -> Files:
        """Reads the file of the project that a command in the file ``beside`` means."""

        def read(text: str) -> Recipe | None:
            path = self._find(text, beside)
            return self._read(path) if path else None

        return read

    def _read(self, path: str) -> Recipe | None:
        try:
            return read_recipe(Source(path, self._text(path)))
        except DocumentError:
            return None

    def _text(self, path: str) -> str:
        self._used.append(path)
        try:
            return read_regular_text(path, _MAX_BYTES)
        except OSError:
            return ""

    def _find(self, text: str, beside: str) -> str | None:
        """The file of the project that a command means by ``text``."""
        root = root_of(self._place)
        for folder in (root, os.path.dirname(beside), os.path.dirname(self._place)):
            path = os.path.normpath(os.path.join(folder, text))
            if path.startswith(root + os.sep):
                self._used.append(path)
                if os.path.isfile(path):
                    return path
        return None

    # -- the project -----------------------------------------------------------------------------

    def _project(self) -> Project:
        root = root_of(self._place)
        project = self._known.get(root)
        if project is None:
            project = self._known[root] = _read_project(root)
        return project


def root_of(place: str) -> str:
    """The project's folder: the nearest one above that is marked as one, else the file's own."""
    folder = first = os.path.dirname(place)
    for _ in range(_MAX_DEPTH):
        if any(os.path.exists(os.path.join(folder, name)) for name in _MARKERS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return first


def _read_project(root: str) -> Project:
    launches: list[Launch] = []
    files: list[str] = []
    for path in _launch_files(root):
        try:
            text = read_regular_text(path, _MAX_BYTES)
        except OSError:
            continue
        commands = read_commands(text, kind_of(path) or "shell")
        if commands:
            files.append(path)
            launches += [Launch(path, command) for command in commands]
    return Project(root, tuple(launches), tuple(files))


def _launch_files(root: str) -> Iterator[str]:
    """The launch files below ``root``, a bounded number of them."""
    waiting = [(root, 0)]
    folders = files = 0
    while waiting and folders < _MAX_FOLDERS and files < _MAX_FILES:
        folder, depth = waiting.pop(0)
        folders += 1
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in ordered:
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if depth < _MAX_DEPTH and entry.name[0] != "." and entry.name not in _SKIPPED:
                    waiting.append((entry.path, depth + 1))
            elif kind_of(entry.name) is not None:
                files += 1
                yield entry.path


def _names(text: str | None, place: str) -> bool:
    """Whether a command's word for a path means the file at ``place``, from any folder."""
    if not text or not place:
        return False
    words = os.path.normpath(text).replace("\\", "/").lstrip("/")
    while words.startswith("../"):
        words = words[3:]
    return f"/{place}".replace("\\", "/").endswith(f"/{words}")
