"""Which files to check: scripts, notebooks and what may be a recipe under the given paths.

What git ignores, virtual environments, build folders, the configuration's ``exclude`` and copies of
the libraries themselves are passed over. A file named on the command line is always taken, unless
``force_exclude`` says that a hook named it and not a person. Links to folders are not followed; one
that leads back to a folder above it is reported.

Cost: one ``scandir`` per folder; no pattern is compiled for the usual ``.gitignore``.
"""

import errno
import os
from collections.abc import Iterator, Sequence

from memlint.project.config import CONFIG_NAMES, Settings, in_folder, nearest
from memlint.project.ignores import Patterns
from memlint.recipes.files import DOCUMENTS, is_launch_file
from memlint.source.bounded import read_regular_text
from memlint.source.diagnostics import FileError, reason
from memlint.source.record import NamedTuple
from memlint.source.roots import folders_above, is_root

SUFFIXES = (".py", ".ipynb", *DOCUMENTS)
_OTHER_FORMATS = (".cfg", ".ini", ".md", ".rst", ".toml")

# Bytes of a file of patterns; git itself gets slow before.
_MAX_PATTERNS = 1 << 20

_SKIPPED_FOLDERS = frozenset(
    {
        ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".memlint_cache",
        ".mypy_cache", ".nox", ".pants.d", ".pytest_cache", ".pytype", ".ruff_cache", ".svn",
        ".tox", ".venv", ".vscode", "__pycache__", "__pypackages__", "_build", "buck-out", "build",
        "dist", "node_modules", "site-packages", "unsloth_compiled_cache", "venv", "wandb",
    }
)  # fmt: skip


class Found(NamedTuple):
    """A file to check.

    path: as shown, beginning with what the user gave.
    named: the user named the file itself, not a folder above it.
    absolute: the path from the root, where it is at hand.
    is_link: a walk came to it by a symbolic link.
    """

    path: str
    settings: Settings
    named: bool = False
    absolute: str = ""
    is_link: bool = False


class Skipped(NamedTuple):
    """A folder that was passed over for a reason worth telling."""

    path: str
    reason: str


class _Folder(NamedTuple):
    """A folder on the walk: ``shown`` to people, ``absolute`` for matching."""

    shown: str
    absolute: str
    settings: Settings
    excluded: Patterns
    ignores: tuple[tuple[str, Patterns], ...]  # (folder, its patterns), outermost first

    def paths(self, name: str) -> tuple[str, str]:
        """Return the path of ``name`` in this folder: as shown, and from the root."""
        return os.path.join(self.shown, name), os.path.join(self.absolute, name)


def discover(
    paths: Sequence[str], *, config: Settings | None = None, force_exclude: bool = False
) -> Iterator[Found | Skipped | FileError]:
    """Yield the files under ``paths``, each once, and an error for what cannot be walked.

    A link comes last, where what it leads to is not among the files. ``config`` takes the place of
    every configuration file. Raises ``ConfigError``.
    """
    seen: set[str] = set()
    links: list[Found] = []
    known: dict[str, Settings | None] = {}
    for path in paths:
        for each in _under(path, config, force_exclude, known):
            if isinstance(each, Found):
                if each.absolute in seen:
                    continue
                if each.is_link:
                    links.append(each)
                    continue
                seen.add(each.absolute)
            yield each
    files = {os.path.realpath(path) for path in seen} if links else set()
    for link in links:
        target = os.path.realpath(link.absolute)
        if target not in files:
            files.add(target)
            yield link


def _under(
    path: str, config: Settings | None, force_exclude: bool, known: dict[str, Settings | None]
) -> Iterator[Found | Skipped | FileError]:
    """Yield the files under one path of the user. known: the settings of folders seen so far."""
    absolute = os.path.abspath(path)
    try:
        is_folder = os.path.isdir(path)
        if not is_folder:
            os.stat(path)
    except OSError as error:
        yield FileError(path, _why_not(error))
        return
    start = absolute if is_folder else os.path.dirname(absolute)
    settings = nearest(start, known) if config is None else config
    folder = _Folder(path, absolute, settings, settings.excluded(), _ignores_above(start))
    if not is_folder and path.endswith(_OTHER_FORMATS):
        yield FileError(path, "is neither a Python file, a notebook nor a recipe")
    elif force_exclude and _excluded(folder, absolute):
        return
    elif is_folder:
        shown = "" if os.path.normpath(path) == "." else path
        yield from _walk(folder._replace(shown=shown), config is None)
    else:
        # A hook names every file: that says nothing of what is in it.
        yield Found(path, settings, not force_exclude, absolute)


def _walk(top: _Folder, configurable: bool) -> Iterator[Found | Skipped | FileError]:
    """Yield what lies under ``top``: a folder's files first. No recursion: trees may be deep."""
    waiting = [top]
    while waiting:
        below: list[_Folder] = []
        yield from _in_folder(waiting.pop(), configurable, below)
        waiting += reversed(below)


def _in_folder(
    folder: _Folder, configurable: bool, below: list[_Folder]
) -> Iterator[Found | Skipped | FileError]:
    """Yield what lies in ``folder`` itself; folders to walk are added to ``below``."""
    try:
        with os.scandir(folder.shown or ".") as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield FileError(folder.shown, _why_not(error))
        return
    names = {entry.name for entry in ordered}
    if "pyvenv.cfg" in names or "conda-meta" in names:
        return
    folder = _enter(folder, names, configurable)
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            inner = _folder_in(folder, entry.name)
            if isinstance(inner, _Folder):
                below.append(inner)
            elif inner is not None:
                yield inner
        else:
            found = _file_in(folder, entry)
            if found is not None:
                yield found


def _folder_in(folder: _Folder, name: str) -> _Folder | Skipped | None:
    shown, absolute = folder.paths(name)
    if name in _SKIPPED_FOLDERS or _ignored(folder, absolute, True):
        return None
    if is_vendored(absolute):
        return Skipped(shown, "a copy of a library")
    return folder._replace(shown=shown, absolute=absolute)


def _file_in(folder: _Folder, entry: os.DirEntry[str]) -> Found | FileError | None:
    """Return a file to check; None for other files and for links that are not followed."""
    if not entry.name.endswith(SUFFIXES) and not is_launch_file(entry.name):
        return _looping_link(folder, entry) if entry.is_symlink() else None
    shown, absolute = folder.paths(entry.name)
    if _ignored(folder, absolute, False):
        return None
    try:
        if entry.is_file():
            return Found(shown, folder.settings, False, absolute, entry.is_symlink())
        if entry.is_symlink():
            os.stat(shown)  # a link to nothing or to itself says so
    except OSError as error:
        return FileError(shown, _why_not(error))
    return None


def _looping_link(folder: _Folder, entry: os.DirEntry[str]) -> FileError | None:
    shown, absolute = folder.paths(entry.name)
    problem = _loop(shown, absolute)
    return problem if problem and not _ignored(folder, absolute, True) else None


def _enter(folder: _Folder, names: set[str], configurable: bool) -> _Folder:
    """Return ``folder`` with the ``.gitignore`` and configuration that lie in it."""
    if ".gitignore" in names:
        patterns = _patterns(os.path.join(folder.absolute, ".gitignore"))
        folder = folder._replace(ignores=(*folder.ignores, (folder.absolute, patterns)))
    present = [name for name in CONFIG_NAMES if name in names]
    if configurable and present:
        settings = in_folder(folder.absolute, present)
        if settings is not None:
            folder = folder._replace(settings=settings, excluded=settings.excluded())
    return folder


def _ignores_above(folder: str) -> tuple[tuple[str, Patterns], ...]:
    """Return the patterns of the repository that hold above ``folder``, outermost first."""
    if os.path.isdir(os.path.join(folder, ".git")):
        return _info_exclude(folder)
    found: list[tuple[str, Patterns]] = []
    here = os.path.dirname(folder)
    while True:
        file = os.path.join(here, ".gitignore")
        if os.path.isfile(file):
            found.append((here, _patterns(file)))
        above = os.path.dirname(here)
        if os.path.exists(os.path.join(here, ".git")):
            return (*_info_exclude(here), *reversed(found))
        if above == here:
            return ()  # in no repository: what lies above is somebody else's
        here = above


def _info_exclude(repository: str) -> tuple[tuple[str, Patterns], ...]:
    file = os.path.join(repository, ".git", "info", "exclude")
    return ((repository, _patterns(file)),) if os.path.isfile(file) else ()


def _patterns(path: str) -> Patterns:
    try:
        return Patterns(read_regular_text(path, _MAX_PATTERNS).split("\n"))
    except OSError:
        return Patterns(())


def _ignored(folder: _Folder, absolute: str, is_folder: bool) -> bool:
    """True if the configuration excludes, or git ignores, this entry of ``folder``."""
    if folder.excluded and folder.excluded.match(
        _relative(absolute, folder.settings.root), is_folder
    ):
        return True
    for base, patterns in reversed(folder.ignores):
        if patterns:
            verdict = patterns.match(_relative(absolute, base), is_folder)
            if verdict is not None:
                return verdict
    return False


def is_excluded(path: str, settings: Settings) -> bool:
    """True if a walk would pass over a file of this name."""
    absolute = os.path.abspath(path)
    above = os.path.dirname(absolute)
    return _excluded(_Folder(path, above, settings, settings.excluded(), ()), absolute)


def _excluded(folder: _Folder, absolute: str) -> bool:
    """True if a path that was named outright is one that a walk from its root would pass over."""
    root = folder.settings.root or folder.absolute
    relative = _relative(absolute, root)
    if any(part in _SKIPPED_FOLDERS for part in relative.split("/")):
        return True
    return folder.excluded.ignores(relative)


def _relative(absolute: str, base: str) -> str:
    relative = absolute[len(base) :] if absolute.startswith(base) else absolute
    return relative.replace(os.sep, "/").lstrip("/")


def _loop(shown: str, absolute: str) -> FileError | None:
    """Return the error of a link that is not a script; None if it is just not followed."""
    try:
        os.stat(absolute)
    except OSError as error:
        return FileError(shown, _why_not(error)) if error.errno == errno.ELOOP else None
    target = os.path.realpath(absolute)
    parent = os.path.realpath(os.path.dirname(absolute))
    if os.path.isdir(target) and (parent + os.sep).startswith(target.rstrip(os.sep) + os.sep):
        return FileError(shown, f"is a folder loop: it leads back to {target}")
    return None


def _why_not(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "does not exist"
    if error.errno == errno.ELOOP:
        return "is a loop of links"
    return f"cannot be read: {reason(error)}"


# -- vendored libraries ----------------------------------------------------------------------------
# Copies of the libraries inside users' repositories: nobody wants findings in them. A package
# folder counts as a copy by its name and a file that only this library has in it. The library's
# own repository is no copy: its project file lies above the package and nothing above that is a
# project. Cost: a set lookup per folder; file system checks only for folders with such a name.

# What lies in the package's own folder and tells it from a user's folder of the same name.
_MARKS = {
    "accelerate": ("accelerator.py", "state.py"),
    "axolotl": ("cli", "utils"),
    "bitsandbytes": ("functional.py", "nn"),
    "deepspeed": ("runtime", "ops"),
    "diffusers": ("pipelines", "models"),
    "liger_kernel": ("ops", "transformers"),
    "peft": ("peft_model.py", "tuners"),
    "sentence_transformers": ("SentenceTransformer.py", "losses"),
    "torch": ("nn", "autograd"),
    "torchtune": ("modules", "training"),
    "transformers": ("modeling_utils.py", "configuration_utils.py"),
    "trl": ("trainer", "import_utils.py"),
    "unsloth": ("models", "kernels"),
    "verl": ("trainer", "workers"),
}
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def is_vendored(folder: str) -> bool:
    """True if ``folder`` (absolute) is a library's package within somebody else's project."""
    name = os.path.basename(folder)
    marks = _MARKS.get(name)
    if marks is None or not os.path.isfile(os.path.join(folder, "__init__.py")):
        return False
    if not all(os.path.exists(os.path.join(folder, mark)) for mark in marks):
        return False
    project = _project_above(folder)
    if project is None or not _is_project_of(project, name):
        return True
    return any(map(is_root, folders_above(os.path.dirname(project))))


def _project_above(folder: str) -> str | None:
    """Return the folder of the nearest project file above a package: its parent or ``src``'s."""
    parent = os.path.dirname(folder)
    for here in (parent, os.path.dirname(parent)):
        if any(os.path.isfile(os.path.join(here, file)) for file in _PROJECT_FILES):
            return here
    return None


def _is_project_of(project: str, name: str) -> bool:
    """True if a project file in ``project`` names the library as its distribution."""
    wanted = {name, name.replace("_", "-")}
    for file in _PROJECT_FILES:
        try:
            lines = read_regular_text(os.path.join(project, file)).split("\n")
        except OSError:
            continue
        for line in lines:
            key, equals, value = line.strip().partition("=")
            if equals and key.strip() == "name" and value.strip(" \t\"',") in wanted:
                return True
    return False
