"""Modules of the same project that a script imports: found, read once, and run where called.

A name that a script imports may be a function or a class of another file of its project: in the
script's folder, in the package or project around it, or in a ``src`` folder there. Such a file is
read when something of it is first called, at most once a script and once a content in a run of
memlint. Bounded in number, size and depth; what is beyond is unknown, as all that is elsewhere.

The nodes of each file have lines of their own, far behind those of the script: a node carries its
file. What comes from there is knowledge about the script's own calls: nothing is reported or edited
there, and no place in one file is compared with a place in another. Settings that recipes and
launch commands give have nodes, too, which know their places.
"""

from __future__ import annotations

import ast
import json
import os
from functools import lru_cache

from memlint.engine.nodes import walk
from memlint.source.bounded import read_regular, read_regular_text
from memlint.source.diagnostics import ReadError
from memlint.source.digests import digest_of
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.text import Span

MAX_MODULES = 12
MAX_DEPTH = 3
_MAX_BYTES = 300_000
_MAX_PARENTS = 4
# A file's number times this is added to its lines; the script's is 0.
_LINES = 1 << 24
# Top-level packages that are no project's own.
_LIBRARIES = frozenset(
    {
        *("torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy", "pandas"),
        *("tqdm", "wandb", "deepspeed", "bitsandbytes", "liger_kernel", "unsloth", "evaluate"),
        *("sklearn", "matplotlib", "torchvision", "torchaudio", "lightning", "hydra", "omegaconf"),
        *("pytorch_lightning", "fire", "click", "typer", "yaml", "safetensors", "vllm", "einops"),
        *("os", "sys", "re", "json", "math", "random", "time", "logging", "pathlib", "functools"),
        *("itertools", "collections", "typing", "dataclasses", "argparse", "copy", "contextlib"),
        *("subprocess", "shutil", "datetime", "warnings", "gc", "abc", "enum", "inspect", "glob"),
        *("memlint_runtime", "tokenizers", "huggingface_hub", "scipy", "PIL", "requests", "nltk"),
        "builtins",
    }
)


class Module(NamedTuple):
    """A file of the project. tree: its lines begin behind those of all files that were read before
    it."""

    path: str
    tree: ast.Module


class Modules:
    """Files that were read, by path; a change of content between two scripts is seen."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Module | None]] = {}
        self._count = 0

    def read(self, path: str) -> Module | None:
        """The module at ``path``; None where it cannot be read or parsed, or is too large."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            self._count += 1
            module = _read(path, self._count) if status.st_size <= _MAX_BYTES else None
            known = self._known[path] = (stamp, module)
        return known[1]


def _read(path: str, number: int) -> Module | None:
    try:
        source = read_source(path, read_regular(path, _MAX_BYTES))
        tree = ast.parse(source.text, path)
        _move(tree, number * _LINES)
    except (ReadError, OSError, SyntaxError, ValueError, RecursionError):
        return None
    return Module(path, tree)


def _move(tree: ast.Module, lines: int) -> None:
    """Move nodes to lines that no other file has: ``ast.increment_lineno`` takes twice as long."""
    for node in walk([tree]):
        if "lineno" in node._attributes:
            node.lineno += lines  # type: ignore[attr-defined]
            node.end_lineno += lines  # type: ignore[attr-defined]


class ElsewhereError(LookupError):
    """A place in the script was asked for, of a node of another file."""


def is_elsewhere(node: object) -> bool:
    """True if a node is of another file of the project."""
    return getattr(node, "lineno", 0) > _LINES


def place_of_setting(node: object) -> Span | None:
    """Return where a node is written that stands for a setting of another file; None for code."""
    return getattr(node, "place", None)


def put(node: ast.AST, place: Span, order: int) -> None:
    """Let a node stand for a setting that is written at a place of another file.

    It comes after all code of the script, and after what has a lower number.
    """
    line = _LINES - 1
    vars(node).update(
        place=place, lineno=line, end_lineno=line, col_offset=order, end_col_offset=order
    )


def are_of_one_file(*nodes: ast.AST) -> bool:
    """True if the places of all nodes can be compared."""
    return len({getattr(node, "lineno", 0) // _LINES for node in nodes}) == 1


@lru_cache(maxsize=4096)
def _is_of_project(name: str) -> bool:
    """True if a qualified name may be one of a file of the project."""
    if "." not in name.strip(".") and not name.startswith("."):
        return False
    return name.partition(".")[0] not in _LIBRARIES and "?" not in name


def is_library(name: str) -> bool:
    """True if a qualified name is one of the libraries', which no project defines."""
    return name.partition(".")[0] in _LIBRARIES


class Project:
    """The files around one script.

    relied_on: the files that were read, and those that were looked for in vain.
    """

    def __init__(self, path: str, modules: Modules | None = None) -> None:
        self._path = os.path.abspath(path)
        self._modules = modules or Modules()
        self._folders: dict[str, tuple[str, ...]] = {}
        self._holders: dict[tuple[str, str], tuple[str, ...]] = {}
        self._there: dict[str, bool] = {}
        # Modules by their path without a suffix.
        self._read: dict[str, Module | None] = {}
        self._found: dict[tuple[str, str], tuple[Module, str] | None] = {}
        self.relied_on: set[str] = set()

    def find(self, name: str, importer: str | None = None) -> tuple[Module, str] | None:
        """The module that defines a qualified name, and the name within it.

        importer: the file whose import it is; None: the script's. Relative names keep their dots.
        """
        if not _is_of_project(name):
            return None
        key = (importer or self._path, name)
        if key not in self._found:
            self._found[key] = self._find(name, key[0])
        return self._found[key]

    def _find(self, name: str, home: str) -> tuple[Module, str] | None:
        level = len(name) - len(name.lstrip("."))
        parts = name[level:].split(".")
        if level:
            folder = os.path.dirname(home)
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            folders: tuple[str, ...] = (folder,)
        else:
            folders = self._that_hold(os.path.dirname(home), parts[0])
            if not folders:
                return None
        for count in range(len(parts) - 1, -1 if level else 0, -1):
            for folder in folders:
                module = self._module(os.path.join(folder, *parts[:count]))
                if module is not None and module.path != self._path:
                    return module, ".".join(parts[count:])
        return None

    def _that_hold(self, folder: str, top: str) -> tuple[str, ...]:
        """The folders around ``folder`` with a module or a package of that name."""
        known = self._holders.get((folder, top))
        if known is None:
            known = tuple(one for one in self._around(folder) if self._has(one, top))
            self._holders[folder, top] = known
        return known

    def _module(self, stem: str) -> Module | None:
        """The module or package at a path without a suffix, looked for once a script."""
        if stem not in self._read:
            path = self._file(stem)
            self._read[stem] = self._modules.read(path) if path is not None else None
        return self._read[stem]

    def _has(self, folder: str, top: str) -> bool:
        """True if a folder holds a module or a package of that name."""
        stem = os.path.join(folder, top)
        if stem not in self._there:
            self._there[stem] = os.path.isfile(f"{stem}.py") or os.path.isdir(stem)
            if not self._there[stem]:
                self.relied_on |= {f"{stem}.py", os.path.join(stem, "__init__.py")}
        return self._there[stem]

    def _file(self, stem: str) -> str | None:
        """The file of a module or a package."""
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            self.relied_on.add(path)
            if os.path.isfile(path):
                return path
        return None

    def _around(self, folder: str) -> tuple[str, ...]:
        """The folders that absolute imports of a file in ``folder`` are looked for in, nearest
        first."""
        known = self._folders.get(folder)
        if known is not None:
            return known
        found = [folder]
        parent = folder
        for _ in range(_MAX_PARENTS):
            if any(os.path.exists(os.path.join(parent, mark)) for mark in _ROOTS):
                break
            above = os.path.dirname(parent)
            if above == parent:
                break
            parent = above
            found.append(parent)
        else:
            # No root in sight: the script's own folder, and that of its package.
            found = found[: 1 + _package_depth(folder)]
        found += [os.path.join(one, "src") for one in found]
        self._folders[folder] = tuple(found)
        return self._folders[folder]

    def settings_file(self, name: str) -> object:
        """What a JSON file that the script names says; None where there is no such file.

        Looked for in the script's folder and in those around it, as paths are written for the
        folder that a run is started in.
        """
        if not name.endswith(".json"):
            return None
        for folder in self._around(os.path.dirname(self._path)):
            path = os.path.join(folder, name)
            self.relied_on.add(path)
            try:
                return json.loads(read_regular_text(path, _MAX_BYTES))
            except (OSError, ValueError, RecursionError):
                continue
        return None

    def digests(self) -> tuple[tuple[str, str], ...]:
        """What the model relied on: each file with a digest, empty for those that are not there."""
        return tuple((path, digest_of(path)) for path in sorted(self.relied_on))


_TRAINS = (b".backward(", b"Trainer(", b".train()", b"DataLoader(", b".step()")
# A module that does such a thing as it is imported is a script.
_ACTS = (b"__main__", b"\nfor ", b"\nwhile ")
_IMPORTS = (b"import ", b"from ")


def project_of(path: str, data: bytes, modules: Modules) -> Project | None:
    """The project around a script that trains; None for libraries and tests, and for what is no
    file. A module of a package is a script where it can be run."""
    name = os.path.basename(path)
    if not any(word in data for word in _TRAINS) or not any(word in data for word in _IMPORTS):
        return None
    if not name.endswith((".py", ".ipynb")) or name.startswith(("test_", "conftest")):
        return None
    if (
        name.endswith(".py")
        and not any(word in data for word in _ACTS)
        and os.path.isfile(os.path.join(os.path.dirname(path), "__init__.py"))
    ):
        return None
    return Project(path, modules) if os.path.isfile(path) else None


_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


def _package_depth(folder: str) -> int:
    depth = 0
    while depth < _MAX_PARENTS and os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
        depth += 1
    return depth
