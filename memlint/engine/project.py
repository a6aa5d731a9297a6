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

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import islice

from memlint.engine.importers import Importers, files_below, text_of
from memlint.engine.nodes import imports_in, walk
from memlint.engine.settings_files import SETTINGS_FILES, document
from memlint.source.bounded import read_regular, read_regular_text
from memlint.source.diagnostics import ReadError
from memlint.source.digests import digest_of
from memlint.source.kept import kept
from memlint.source.parsing import parsed
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import folders_above, is_root
from memlint.source.text import Span

MAX_MODULES = 20
MAX_DEPTH = 3
_MAX_BYTES = 300_000
_MAX_PARENTS = 4
# What may give a script its settings, and how many such files are read for one word.
_SAYING = (".py", ".yaml", ".yml", ".json", ".toml", ".sh", ".ipynb")
_MOST_SAYING = 300
# Of folders in which scripts are looked for.
_MOST_DEPTH = 6
# A file's number times this is added to its lines; the script's is 0.
_LINES = 1 << 24
_NOT_BESIDE = ("__init__.py", "pyproject.toml", "setup.py", "setup.cfg")
_NAMED = re.compile(r"(?m)^[ \t]*+name[ \t]*+=[ \t]*+[\"']?([\w.-]+)")
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
    """A file of the project. tree: its lines begin behind those of all files read before it."""

    path: str
    tree: ast.Module
    text: str = ""


class Modules:
    """Files that were read, by path; a change of content between two scripts is seen."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Module | None]] = {}
        self._paths: list[str] = []
        # Who imports whom, by folder; and what folders say, by folder and pattern.
        self.importers: dict[str, Importers] = {}
        self.said: dict[tuple[str, object], tuple[bool | None, tuple[str, ...]]] = {}

    def read(self, path: str) -> Module | None:
        """The module at ``path``; None where it cannot be read or parsed, or is too large."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            self._paths.append(path)
            module = _read(path, len(self._paths)) if status.st_size <= _MAX_BYTES else None
            known = self._known[path] = (stamp, module)
        return known[1]

    def line_of(self, node: ast.AST) -> str:
        """``line 7``, or ``line 7 of sizes.py`` where it is in another file than the script."""
        number, line = divmod(getattr(node, "lineno", 0), _LINES)
        where = f" of {os.path.relpath(self._paths[number - 1])}" if number else ""
        return f"line {line}{where}"


def _read(path: str, number: int) -> Module | None:
    try:
        source = read_source(path, read_regular(path, _MAX_BYTES))
        tree = parsed(source.text)
        _move(tree, number * _LINES)
    except (ReadError, OSError, SyntaxError, ValueError, RecursionError):
        return None
    return Module(path, tree, source.text)


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
def may_be_of_project(name: str) -> bool:
    """True if a qualified name may be one of a file of the project."""
    if "." not in name.strip(".") and not name.startswith("."):
        return False
    return name.partition(".")[0] not in _LIBRARIES and "?" not in name


def is_library(name: str) -> bool:
    """True if a qualified name is one of the libraries', which no project defines."""
    return name.partition(".")[0] in _LIBRARIES


class Project:
    """The files around one script.

    relied_on: the files that were read, and those that were looked for in vain. is_library: the
    file is no script: what it imports is followed where a script leads to it. trains: it trains
    by itself, so that something out of sight may run it. is_both: it is a script that others may
    import.
    """

    def __init__(
        self,
        path: str,
        modules: Modules | None = None,
        *,
        is_library: bool = False,
        trains: bool = True,
        is_both: bool = False,
    ) -> None:
        self._path = os.path.abspath(path)
        self._modules = modules or Modules()
        self.is_library = is_library
        self._is_both = is_both
        self.trains = trains
        # The script itself, where others that import it are run for it.
        self.own: Module | None = None
        # Whether one script that leads here is run, whatever the file calls by itself.
        self.is_led_alone = False
        # Modules by their path without a suffix.
        self._read: dict[str, Module | None] = {}
        self._found: dict[tuple[str, str], tuple[Module, str] | None] = {}
        self.relied_on: set[str] = set()

    def find(self, name: str, importer: str | None = None) -> tuple[Module, str] | None:
        """The module that defines a qualified name, and the name within it.

        importer: the file whose import it is; None: the script's. Relative names keep their dots.
        """
        if not may_be_of_project(name) or not self.follows_imports:
            return None
        key = (importer or self._path, name)
        if key not in self._found:
            self._found[key] = self._find(name, key[0])
        return self._found[key]

    def _find(self, name: str, home: str) -> tuple[Module, str] | None:
        for stem, rest in self._candidates(name, home):
            module = self._module(stem)
            if module is not None and (module.path != self._path or module is self.own):
                return module, rest
        return None

    def _candidates(self, name: str, home: str) -> Iterator[tuple[str, str]]:
        """Yield the paths without a suffix where a module may be, and the name within it."""
        level = len(name) - len(name.lstrip("."))
        parts = name[level:].split(".") if name[level:] else []
        if level:
            folder = os.path.dirname(home)
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            folders: tuple[str, ...] = (folder,)
        else:
            folders = self._that_hold(home, parts[0])
        for count in range(len(parts) - 1, -1 if level else 0, -1):
            for folder in folders:
                yield os.path.join(folder, *parts[:count]), ".".join(parts[count:])

    def hides_library(self, name: str, importer: str | None = None) -> bool:
        """True if a package beside a script has a library's name, and its project has another."""
        folder, top = os.path.dirname(importer or self._path), name.partition(".")[0]
        if not is_library(name) or not self._has(folder, top):
            return False
        inside, *files = (os.path.join(folder, one) for one in _NOT_BESIDE)
        if os.path.isfile(inside) or not os.path.isfile(os.path.join(folder, top, "__init__.py")):
            return False
        named = _NAMED.search("\n".join(map(text_of, files)))
        is_of = top in named[1].replace("-", "_") if named else any(map(os.path.isfile, files))
        return not is_of

    def _that_hold(self, home: str, top: str) -> tuple[str, ...]:
        """The folders around a file with a module or package of that name, or on its paths."""
        folder = os.path.dirname(home)
        around = self._around_with(folder, top)
        found = around or tuple(one for one in self._added_by(home) if self._has(one, top))
        if found or is_library(top):
            return found
        # ``src.models`` from within ``src``, where nothing marks the folder of the project.
        above = islice(folders_above(folder), _MAX_PARENTS)
        return tuple(os.path.dirname(one) for one in above if os.path.basename(one) == top)[:1]

    @kept
    def _around_with(self, folder: str, top: str) -> tuple[str, ...]:
        return tuple(one for one in self._around(folder) if self._has(one, top))

    @kept
    def _added_by(self, home: str) -> tuple[str, ...]:
        """The folders that a file adds to the path of modules, or those around it."""
        lines = _PATH.findall(text_of(home))
        if not lines:
            return ()
        folder = os.path.dirname(home)
        above = os.path.dirname(folder)
        bases = [folder, above, os.path.dirname(above)]
        # ``os.path.join(ROOT, "common")``: whatever the root is, it is near.
        parts = [part for line in lines for part in _LITERAL.findall(line)]
        around = [*(os.path.join(base, part) for base in bases for part in parts), *bases[1:]]
        return tuple(dict.fromkeys(os.path.normpath(one) for one in around))

    def trains_nothing(self) -> bool:
        """True if nothing imports the file, and it and what it imports of the project certainly
        train nothing: no word of training is there, and no unknown package gets settings."""
        waiting, seen = [self._path], set[str]()
        while waiting and len(seen) < _MOST_SAYING:
            path = waiting.pop()
            module = self._modules.read(path)
            words, settings = (_TRAINING, _SETTINGS) if seen else (_STARTING, "[a-z_]")
            seen.add(path)
            if module is None or words.search(module.text):
                return False
            for name, bound in imports_in(walk([module.tree])):
                found = self._locate(name, path)
                if found is not None:
                    waiting += {found} - seen.union(waiting)
                elif name.partition(".")[0] not in _QUIET and (
                    bound == "*" or re.search(_HANDS % (bound, bound, settings), module.text)
                ):
                    return False
        return not waiting and not self._importers.is_imported(self._path)

    # -- who leads here --------------------------------------------------------------------------

    @cached_property
    def _root(self) -> str:
        """The folder of the project, as far as it can be told."""
        folder = os.path.dirname(self._path)
        around = self._around(folder)
        return ([one for one in around if os.path.basename(one) != "src"] or [folder])[-1]

    @cached_property
    def _importers(self) -> Importers:
        """Who imports whom around the file."""
        root = self._root
        if is_root(root):
            return self._importers_of(root, _MOST_DEPTH)
        beside = self._importers_of(os.path.dirname(root), 3, marked=False)
        # Where so much stands beside, it is a folder of projects.
        return self._importers_of(root, _MOST_DEPTH) if beside.is_too_large else beside

    def _importers_of(self, root: str, depth: int, *, marked: bool = True) -> Importers:
        known = self._modules.importers.get(root)
        if known is None:
            locate = Project(self._path, self._modules)._locate
            known = Importers(root, depth, locate, marked=marked)
            self._modules.importers[root] = known
        return known

    def _locate(self, name: str, importer: str) -> str | None:
        """The file that an import stands for; None where it is no project's."""
        if not may_be_of_project(f"{name}.x") or not name.strip("."):
            return None
        for stem, _ in self._candidates(f"{name}.", importer):
            path = self._file(stem)
            if path is not None:
                return path
        return None

    @cached_property
    def scripts_above(self) -> tuple[str, ...]:
        """The scripts that lead to the file, nearest first; none for what is only a script."""
        if not (self.is_library or self._is_both):
            return ()
        above = self._importers.scripts_above(self._path)
        self._rely_on(above)
        return tuple(above)

    def _rely_on(self, scripts: Iterable[str]) -> None:
        scripts = tuple(scripts)
        self.relied_on.update(scripts, map(os.path.dirname, scripts), self._importers.roots)

    def all_above(self) -> dict[str, set[str]]:
        """Return all scripts that lead to the file, with what of it is named on the way."""
        if not (self.is_library or self._is_both):
            return {}
        above = self._importers.leading(self._path)
        self._rely_on(above)
        return above

    def led_alone_by(self, path: str) -> "Project":
        """Return the files around the script where one of those that lead to it is run, and no
        other."""
        alone = Project(self._path, self._modules, is_library=self.is_library, trains=self.trains,
                        is_both=self._is_both)  # fmt: skip
        alone.scripts_above, alone.is_led_alone = (path,), True
        return alone

    @cached_property
    def follows_imports(self) -> bool:
        """True if what the file imports is followed: it is a script, a script leads to it, or
        nothing imports it, so that what is not in sight may run it."""
        if not self.is_library or self.scripts_above:
            return True
        return self.trains and not self._importers.is_imported(self._path)

    def script(self, path: str) -> Module | None:
        """A script that leads to the file."""
        return self._modules.read(path) if path.endswith(".ipynb") else self._module(path[:-3])

    def lead_to(self, tree: ast.Module) -> None:
        """Take the file, whose tree this is, for what scripts import under its name."""
        self.own = Module(self._path, tree)
        stem = self._path.removesuffix(".py")
        self._read[stem.removesuffix("/__init__")] = self.own
        self._found.clear()

    def name_of(self, path: str) -> str:
        """A file as users name it: from the folder of the project, or of both files."""
        folder = os.path.dirname(self._path)
        roots = [one for one in self._around(folder) if is_root(one)]
        common = os.path.commonpath([folder, os.path.dirname(path)])
        return os.path.relpath(path, *(roots or [common])[:1])

    def _module(self, stem: str) -> Module | None:
        """The module or package at a path without a suffix, looked for once a script."""
        if stem not in self._read:
            path = self._file(stem)
            self._read[stem] = self._modules.read(path) if path is not None else None
        return self._read[stem]

    @kept
    def _has(self, folder: str, top: str) -> bool:
        """True if a folder holds a module or a package of that name."""
        stem = os.path.join(folder, top)
        there = os.path.isfile(f"{stem}.py") or os.path.isdir(stem)
        if not there:
            self.relied_on |= {f"{stem}.py", os.path.join(stem, "__init__.py")}
        return there

    def _file(self, stem: str) -> str | None:
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            self.relied_on.add(path)
            if os.path.isfile(path):
                return path
        return None

    @kept
    def _around(self, folder: str) -> tuple[str, ...]:
        """The folders in which absolute imports in ``folder`` are looked for, nearest first."""
        found = [folder]
        while len(found) <= _MAX_PARENTS and not is_root(found[-1]):
            found.append(os.path.dirname(found[-1]))
        if not is_root(found[-1]):
            # No root in sight: the script's own folder, and that of its package.
            found = found[: 1 + _package_depth(folder)]
        return tuple(found + [os.path.join(one, "src") for one in found])

    def settings_file(self, name: str) -> object:
        """What a file of settings that the script names says; None where there is no such file.

        Looked for in the script's folder and in those around it, as paths are written for the
        folder that a run is started in; where nothing marks it, above for one in a folder, too.
        """
        if not name.endswith(SETTINGS_FILES):
            return None
        folder, name = os.path.dirname(self._path), os.path.normpath(name)
        around = self._around(folder)
        marked = any(map(is_root, around)) or os.sep not in name or os.path.isabs(name)
        above = () if marked else islice(folders_above(folder), 1, 3)
        for folder in (*around, *above):
            path = os.path.join(folder, name)
            self.relied_on.add(path)
            try:
                return document(path, read_regular_text(path, _MAX_BYTES))
            except (OSError, ValueError, RecursionError):
                continue
        return None

    def says(self, pattern: str | re.Pattern[str]) -> bool | None:
        """True if code, settings or commands of the project hold a text, or what a pattern matches;
        None where they are too many. A larger file holds data."""
        known, key = self._modules.said, (self._root, pattern)
        if key not in known:
            files = list(islice(files_below(self._root, _MOST_DEPTH, _SAYING), _MOST_SAYING + 1))
            texts = map(text_of, files)
            if isinstance(pattern, str):
                said = any(pattern in text for text in texts)
            else:
                said = any(pattern.search(text) for text in texts)
            settings = tuple(one for one in files if not one.endswith((".py", ".ipynb")))
            known[key] = (True if said else None if len(files) > _MOST_SAYING else False, settings)
        answer, settings = known[key]
        self.relied_on.update((self._root, *settings, *map(os.path.dirname, settings)))
        return answer

    def digests(self) -> tuple[tuple[str, str], ...]:
        """What the model relied on: each file with a digest, empty for those that are not there."""
        return tuple((path, digest_of(path)) for path in sorted(self.relied_on))


# Words without which nothing trains; names of settings; calls that hand one to a name.
_TRAINING = re.compile(
    r"[Tt]rainer\b|\bbackward\b|(?<![A-Za-z0-9])train(?!_test)\w{0,60}\(|\bfit\(|\boptim(?:izer)?\."
    r"|\.step\(|import_module|instantiate\(|getattr\(tr|runpy|torchrun|sbatch|launch\w{0,20}[\"'(]"
    r"|\bexec\(|os\.system|trl\.(?:cli|scripts\b(?!\.utils))"
)
_STARTING = re.compile(rf"{_TRAINING.pattern}|subprocess|[Pp]open|__import__")
_SETTINGS = r"\w{0,40}?(?:(?<!kw)arg|conf|cfg|param|opt|setting)"
_HANDS = r"(?:\b%s\b[\w.]{0,99}\(|\(%s,)[^)]{0,900}?(?<![\w.\"'])%s\w{0,40}+(?!\s?[\w=(\"'])"
_QUIET = sys.stdlib_module_names | _LIBRARIES | {"huggingface_hub", "openai", "tokenizers"}
_TRAINS = (
    *(b".backward(", b"Trainer(", b"train(", b".fit(", b"DataLoader(", b".step()"),
    b"DataModule)",
)
# What a module makes for scripts that train.
_MAKES = (
    *(b"from_pretrained(", b"Arguments(", b"Config(", b"_model(", b"tokenizer("),
    *(b"logits", b".loss", b"model(", b"torch.load(", b"tokenizer.encode", b"truncation="),
    *(b"cross_entropy", b"CrossEntropyLoss", b"empty_cache(", b"optim.Adam", b"pad_sequence"),
    b"Dataset):",
)
# A module that does such a thing as it is imported is a script.
_IS_BOTH = b"__main__"
_ACTS = re.compile(rb"^(?:for [\w, ()*]{1,80} in [^\n.]|while [^\n]+:\s*+(?:#|$))", re.MULTILINE)
_IMPORTS = (b"import ", b"from ")
_PATH = re.compile(r"sys\.path\.(?:insert|append|extend)\b(.*)")
_LITERAL = re.compile(r"""["']([^"'\n]+)["']""")


def project_of(path: str, data: bytes, modules: Modules) -> Project | None:
    """The project around a script that trains, or around a module that scripts train with; None for
    tests, and for what is no file. A module of a package is a script where it can be run."""
    name = os.path.basename(path)
    if not name.endswith((".py", ".ipynb")) or name.startswith(("test_", "conftest")):
        return None
    trains = _has(data, _TRAINS)
    if not (trains or _has(data, _MAKES)) or not os.path.isfile(path):
        return None
    if name.endswith(".py") and _is_module(path, data, trains):
        return Project(path, modules, is_library=True, trains=trains or _acts(data))
    if not (trains or _IS_BOTH in data or path.endswith(".ipynb")) or not _has(data, _IMPORTS):
        return None
    return Project(path, modules, is_both=name.endswith(".py"), trains=trains)


def _has(data: bytes, words: tuple[bytes, ...]) -> bool:
    return any(word in data for word in words)


def _is_module(path: str, data: bytes, trains: bool) -> bool:
    """True if a file is one that scripts import: nothing says that it can be run."""
    if _IS_BOTH in data or _ACTS.search(data):
        return False
    in_package = os.path.isfile(os.path.join(os.path.dirname(path), "__init__.py"))
    return in_package or not trains or not _acts(data)


def _acts(data: bytes) -> bool:
    """True if a module calls something as it is imported, beside what it defines."""
    return re.search(rb"^(?:\w[\w.]* *= *)?[\w.]+\(", data, re.MULTILINE) is not None


def _package_depth(folder: str) -> int:
    depth = 0
    while depth < _MAX_PARENTS and os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
        depth += 1
    return depth
