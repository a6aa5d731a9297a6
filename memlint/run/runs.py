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
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice

from memlint.engine import project
from memlint.engine.project import Modules
from memlint.recipes.commands import document_of, kind_of_command, name_of, recipe_of
from memlint.recipes.document import DocumentError, Entry, MappingNode
from memlint.recipes.files import is_launch_file, says_commands
from memlint.recipes.keys import program_of
from memlint.recipes.kinds import Kind, Reader, kind_for_launcher, reader_by_keys
from memlint.recipes.launch import NOTEBOOK_STARTS, Command, commands_in, read_commands
from memlint.recipes.recipe import Recipe, read_recipe
from memlint.run.launchers import Files, launcher_of
from memlint.run.ownership import Launch, Readers, means, names_of_files
from memlint.script.launcher import Launcher, joined
from memlint.source import Source
from memlint.source.bounded import read_regular_text
from memlint.source.diagnostics import ReadError
from memlint.source.digests import digest_of
from memlint.source.patterns import lazy_pattern
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import folders_above, is_root

# Where a project's tests are: of the scripts that train they are none.
_TESTS, _TEST_FILES = "tests", ("test_", "conftest")
_SKIPPED = frozenset(
    {"node_modules", "site-packages", "venv", "build", "dist", "__pycache__", _TESTS}
)
_MAX_FOLDERS, _MAX_FILES, _MAX_DEPTH, _MAX_BYTES = 1500, 200, 6, 256 << 10
# Folders that one without scripts may hold, and be a part of a project.
_MOST_PARTS = 30
_MAX_SCRIPTS = 2000
_TRAINER = lazy_pattern(r"\b((?:SFT|DPO|GRPO|KTO|ORPO|CPO|Reward|RLOO)Trainer)\s*\(")
_ZERO_3 = {"zero_optimization": {"stage": 3}}
# The languages of a page's blocks of code that hold commands.
_SHELLS = ("", "bash", "sh", "shell", "zsh", "console")


# Launch commands with their words that may be names of files, by the last part of the name.
Said = Mapping[str, Sequence[tuple[Launch, Sequence[str]]]]
# The release of a program (``torchtune``) for a recipe at a place.
Release = Callable[[str, str], str | None]


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


class Project(NamedTuple):
    """A project's folder, what its launch commands say, their files, who reads its files of
    settings, and its folders.

    shown: the commands of pages that people read, which are examples.
    """

    root: str
    said: Said
    shown: Said
    files: tuple[str, ...]
    readers: Readers
    folders: tuple[str, ...]


class Runs:
    """The runs of the projects that were looked at; ``at`` is asked for one file of one.

    place: the absolute path of the file that is asked for. modules: the files of projects that
    scripts import. scripts: those that commands of the place start, or would if they were there.
    started: those of all places, by path; None for those without a parser.
    """

    def __init__(
        self, place: str = "", release: Release | None = None, modules: Modules | None = None
    ) -> None:
        self.place = place
        self.modules = modules or Modules()
        self.scripts: set[str] = set()
        self._release = release
        self._used: list[str] = []
        # What was read of projects, for all files of a run of memlint.
        self.started: dict[str, Source | None] = {}
        self._projects: dict[str, Project] = {}
        self._roots: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def at(self, place: str) -> Runs:
        """The same runs, asked for the file at ``place``, an absolute path."""
        other = copy(self)
        other.place, other.scripts, other._used = place, set(), []
        return other

    def reader_of(self, root: MappingNode) -> Reader | None:
        """The reader of the file at the place, whose mapping is ``root``; None if it has none."""
        shown = self._naming(self._project.shown)
        return self._project.readers.of(self.place, root, self._naming(), shown)

    def asked_elsewhere(
        self, root: MappingNode, keys: Collection[str], gone: Collection[str]
    ) -> dict[str, str]:
        """Those of ``keys`` that something beside the reader of the file at the place may ask it
        for, each with where that stands. root: the file's mapping. gone: classes without them."""
        return self._project.readers.elsewhere(self.place, root, keys, gone)

    def trains_nothing(self, reader: Reader | None, root: MappingNode) -> bool:
        """True if scripts that certainly train nothing read the file at the place, and nothing
        else: a command gives it to them, or it has keys that no program takes."""
        if reader is None or not (self.launches() or reader_by_keys(root) is None):
            return False
        scripts = [project.Project(each.path, self.modules) for each in (reader, *reader.also)]
        idle = {each.trains_nothing() for each in scripts}
        self._used += [path for each in scripts for path in each.relied_on]
        return idle == {True}

    def may_train_own_code(self, reader: Reader | None) -> bool:
        """True if a script of the project reads the file at the place, and those that may train by
        it are not certain to train a model of a class that transformers has."""
        readers = self._project.readers
        paths = [reader.path, *(other.path for other in reader.also)] if reader is not None else []
        for path in filter(None, paths):
            self._used += readers.importing(path)
            if readers.trains_own_code(path):
                return True
        return False

    @property
    def is_named(self) -> bool:
        """True if a launch command names the file at the place."""
        return bool(self._naming())

    def _naming(self, said: Said | None = None) -> list[Launch]:
        if not self.place:
            return []
        root = self._project.root
        return [
            launch
            for launch, texts in self._said_of_place(said)
            if any(means(text, self.place, launch.path, launch.command, root) for text in texts)
        ]

    def _said_of_place(self, said: Said | None = None) -> Iterable[tuple[Launch, Sequence[str]]]:
        """The launch commands with words that end like the place, and these words."""
        said = self._project.said if said is None else said
        return said.get(os.path.basename(self.place), ())

    def of_release(self, recipe: Recipe) -> Recipe:
        """A recipe for the release of its program that the project has."""
        program = program_of(recipe.kind)
        if program is None or self._release is None:
            return recipe
        return recipe._replace(release=self._release(self.place, program))

    @property
    def used(self) -> tuple[str, ...]:
        """The files that were looked for, and read where they are there."""
        return tuple(dict.fromkeys(self._used))

    def launches(self, *, shown: bool = False) -> tuple[Launch, ...]:
        """The commands, or those of pages, that are given the recipe or start the script here."""
        root, said = self._project.root, self._project.shown if shown else None
        return tuple(
            launch
            for launch, texts in self._said_of_place(said)
            if any(
                text in texts and means(text, self.place, launch.path, launch.command, root)
                for text in (launch.command.recipe, *launch.command.scripts)
                if text is not None
            )
        )

    @property
    def starter(self) -> Source | None:
        """The one notebook whose commands start the recipe at the place."""
        found = {one.path: one.source for one in self.launches()}
        books = [source for path, source in found.items() if path.endswith(".ipynb")]
        return books[0] if len(books) == len(found) == 1 else None

    def around(self, recipe: Recipe) -> Around:
        """What the run decides for the recipe at the place."""
        if recipe.kind in (Kind.ACCELERATE, Kind.DEEPSPEED):
            return Around()
        if recipe.command is not None:
            return self.around_command(recipe, recipe.command)
        if launches := self.launches():
            return self._around(recipe, launches)
        found = self._around(recipe, self.launches(shown=True))
        # An example on a page leaves the allocator's variable, and options, to whoever reads it.
        launcher = found.launcher._replace(expandable=found.launcher.expandable or None)
        return found._replace(launcher=launcher, overridden=frozenset(), entries=())

    def around_command(self, recipe: Recipe, command: Command) -> Around:
        """What a command in the file at the place decides for a recipe."""
        launcher = launcher_of(command, self.files(self.place))
        return Around(recipe.name, launcher=launcher, by_trl=bool(recipe.name))

    def _around(self, recipe: Recipe, launches: Sequence[Launch]) -> Around:
        methods = {self._method(launch) for launch in launches}
        overridden = [{flag.name for flag in launch.command.settings} for launch in launches]
        own = recipe.option("deepspeed").value
        config = self.files(self.place)(own) if isinstance(own, str) else None
        stage = config.option("zero_optimization.stage").value if config else None
        return Around(
            methods.pop() if len(methods) == 1 else "",
            {"deepspeed": _ZERO_3} if stage == 3 else {},
            frozenset(set.intersection(*overridden)) if overridden else frozenset(),
            joined([launcher_of(one.command, self.files(one.path)) for one in launches]),
            bool(launches) and all(launch.command.starts == "trl" for launch in launches),
            self._entries(launches) if recipe.kind.fills_trl else (),
        )

    def _entries(self, launches: Sequence[Launch]) -> tuple[Entry, ...]:
        """The settings that all commands give alike."""
        every = []
        for launch in launches:
            entries = document_of(launch.command, Kind.TRL).root.entries
            every.append(
                {(str(e.key.value), repr(getattr(e.value, "value", e))): e for e in entries}
            )
        return (
            tuple(e for key, e in every[0].items() if all(key in o for o in every)) if every else ()
        )

    def recipe_of(self, path: str, command: Command) -> Recipe | None:
        """The recipe that a command names, if it is in the project."""
        text = command.recipe
        kind = kind_of_command(command)
        found = self._find(text, self.place or path) if text and kind else None
        return self._read(found, kind) if found else None

    def commanded(self, recipe: Recipe) -> Iterator[Recipe]:
        """Yield the recipe at the place as its commands change it."""
        for launch in self.launches():
            changed = recipe_of(launch.source, launch.command, recipe)
            if changed is not None:
                yield self.of_release(changed)

    def each_run(self, recipe: Recipe) -> Iterator[tuple[Launch | None, Recipe, Around]]:
        """Yield the recipe at the place as each of its commands runs it, with that one's
        surroundings; by itself where none is known."""
        launches = self.launches()
        if not launches:
            yield None, recipe, self.around(recipe)
        for launch in launches:
            command = launch.command
            run = recipe._replace(name=name_of(command) or recipe.name)
            document = document_of(command, recipe.kind)
            if document.root.entries:
                run = run._replace(document=document, base=recipe)
            around = self._around(recipe, [launch])
            yield launch, run, around._replace(overridden=frozenset(), entries=())

    def settings_of(self, command: Command, beside: str) -> dict[str, object]:
        """What the recipe that a command hands to its script gives to it: texts, as on a command
        line, and None for what none can say."""
        path = self._find(command.recipe, beside) if command.recipe else None
        if path is None:
            return {}
        try:
            recipe = read_recipe(self._source(path), self.at(path).reader_of)
        except DocumentError:
            return {}
        if recipe is None or recipe.kind is not Kind.TRL:
            return {}
        return {key: _as_flag(recipe.option(key).value) for key in recipe.keys}

    @property
    def relied_on(self) -> tuple[tuple[str, str], ...]:
        """The files that what was said depends on, each with a digest."""
        project, digests = self._project, self._digests
        every = (*project.files, *self._used, *sorted(self.scripts), *project.readers.paths)
        others = dict.fromkeys((*every, *project.folders))
        others.pop(self.place, None)
        digests.update((each, digest_of(each)) for each in others if each not in digests)
        return tuple((each, digests[each]) for each in others)

    # -- files of the run ------------------------------------------------------------------------

    def _method(self, launch: Launch) -> str:
        """The trainer of TRL that a command comes to; empty where it is not known."""
        command = launch.command
        if command.target is None or command.target.text is None:
            return ""
        if command.starts == "trl":
            return command.target.text
        found = (self._find(script, launch.path) for script in command.scripts)
        path = next((each for each in found if each is not None), None)
        if path is None:
            return ""
        names = set(_TRAINER.findall(self._source(path).text))
        return names.pop() if len(names) == 1 else ""

    def files(self, beside: str) -> Files:
        """Reads the file of the project that a command in the file ``beside`` means."""

        def read(text: str) -> Recipe | None:
            path = self._find(text, beside)
            return self._read(path, None) if path else None

        return read

    def _read(self, path: str, kind: Kind | None) -> Recipe | None:
        """The file at ``path``, which a command gives to a program; None: to a launcher."""

        def reader_of(root: MappingNode) -> Reader:
            return Reader(kind or kind_for_launcher(root), "a command names it")

        try:
            return read_recipe(self._source(path), reader_of)
        except DocumentError:
            return None

    def _source(self, path: str) -> Source:
        """A file of the project; empty where it cannot be read."""
        self._used.append(path)
        return _read(path) or Source(path, "")

    def _find(self, text: str, beside: str) -> str | None:
        """The file of the project that a command means by ``text``."""
        root = root_of(self.place)
        for folder in (root, os.path.dirname(beside), os.path.dirname(self.place)):
            path = os.path.normpath(os.path.join(folder, text))
            if path.startswith(root + os.sep):
                self._used.append(path)
                if os.path.isfile(path):
                    return path
        return None

    # -- the project -----------------------------------------------------------------------------

    @property
    def _project(self) -> Project:
        folder = os.path.dirname(self.place)
        root = self._roots.get(folder)
        if root is None:
            root = self._roots[folder] = root_of(self.place)
        if root not in self._projects:
            self._projects[root] = _read_project(root, self.modules)
        return self._projects[root]


def _as_flag(value: object) -> object:
    """A recipe's value as it would stand on a command line, which takes no list or mapping."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else value


def root_of(place: str) -> str:
    """The project's folder: the nearest one above that is marked as one, else the file's own."""
    first = os.path.dirname(place)
    folder = next(filter(is_root, islice(folders_above(first), _MAX_DEPTH)), None)
    if folder is None:
        return _highest_with_scripts(first)
    # What tests hold is read by what lies beside it.
    return first if _TESTS in os.path.relpath(first, folder).split(os.sep) else folder


def _highest_with_scripts(first: str) -> str:
    """The highest of a folder and the three above it that holds scripts or launch files."""
    outside = {os.path.expanduser("~"), "/tmp", os.environ.get("TMPDIR"), os.environ.get("TEMP")}
    root = first
    for folder in islice(folders_above(first), 1, 4):
        if folder in outside:
            break
        try:
            with os.scandir(folder) as entries:
                is_folder = {entry.name: entry.is_dir() for entry in entries}
        except OSError:
            break
        if any(name.endswith(".py") or is_launch_file(name) for name in is_folder):
            root = folder
        elif sum(is_folder.values()) > _MOST_PARTS:
            # A folder of projects.
            break
    return root


def _read(path: str) -> Source | None:
    """A file of settings, of commands or of code."""
    try:
        text = read_regular_text(path, _MAX_BYTES)
        if not path.endswith(".ipynb"):
            return Source(path, text)
        return read_source(path, text.encode()) if NOTEBOOK_STARTS.search(text) else None
    except (OSError, ReadError):
        return None


def launches_in(path: str) -> Iterator[Launch]:
    """The commands of a file, or those of each shell block of a page."""
    source = _read(path) or Source(path, "")
    if not path.endswith(".md"):
        yield from (Launch(source, each) for each in commands_in(source))
        return
    for block in _shell_blocks(source.text):
        alone = Source(path, block)
        yield from (Launch(alone, each) for each in read_commands(block, "shell"))


def _shell_blocks(text: str) -> Iterator[str]:
    """Yield the shell blocks of a page, each behind as many empty lines as stand before it."""
    fence, is_shell, is_hidden, block = "", False, False, [""]
    for number, line in enumerate(text.splitlines()):
        mark = line.strip()
        if is_hidden or (not fence and mark.startswith("<!--")):
            is_hidden = "-->" not in mark
        elif fence and mark.startswith(fence) and not mark.strip(fence[0]):
            if is_shell:
                yield "\n".join(block)
            fence = ""
        elif fence:
            block.append(mark[2:] if mark.startswith("$ ") else line)
        elif mark.startswith(("```", "~~~")):
            language = mark.lstrip(mark[0])
            is_shell = language.strip().lower() in _SHELLS
            fence, block = mark[: len(mark) - len(language)], [""] * (number + 1)


def _read_project(root: str, modules: Modules) -> Project:
    said: dict[str, list[tuple[Launch, list[str]]]] = defaultdict(list)
    shown: dict[str, list[tuple[Launch, list[str]]]] = defaultdict(list)
    files: list[str] = []
    scripts: list[str] = []
    folders: list[str] = []
    for path in _files(root, folders):
        if path.endswith((".py", ".ipynb")):
            scripts.append(path)
        if path.endswith(".py"):
            continue
        launches = tuple(launches_in(path))
        if launches:
            files.append(path)
        for launch in launches:
            for name, words in names_of_files(launch.command).items():
                (shown if path.endswith(".md") else said)[name].append((launch, words))
    # There may be more files than were looked through.
    is_whole = len(folders) < _MAX_FOLDERS and len(scripts) < _MAX_SCRIPTS
    readers = Readers(root, scripts, modules, is_whole=is_whole)
    return Project(root, said, shown, tuple(files), readers, tuple(folders))


def _files(root: str, folders: list[str]) -> Iterator[str]:
    """The launch files and the scripts below ``root``, a bounded number of them.

    folders: those that were listed are added to it.
    """
    waiting = [(root, 0)]
    launching = scripts = 0
    while waiting and len(folders) < _MAX_FOLDERS:
        folder, depth = waiting.pop(0)
        folders.append(folder)
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
            elif entry.name.endswith(".py"):
                scripts += 1
                if scripts <= _MAX_SCRIPTS and not entry.name.startswith(_TEST_FILES):
                    yield entry.path
            elif says_commands(entry.name):
                launching += 1
                if launching <= _MAX_FILES:
                    yield entry.path
