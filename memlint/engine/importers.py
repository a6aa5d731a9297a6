"""Scripts that lead to a module of the project: they import it, or what imports it.

What a module defines is judged with what they give to it. Imports are read with a regular
expression, of all files around, once in a run of memlint.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice

from memlint.source.bounded import read_regular

MAX_SCRIPTS = 3
# Of those that each reach what no other does.
_MAX_OTHERS = 6
_MAX_FILES = 400
_MAX_BYTES = 300_000
_MAX_HOPS = 6
_SKIPPED = frozenset({"tests", "test", "node_modules", "site-packages", "venv", "env", "build"})
_TESTS = ("test_", "conftest", "setup.", "smoke_")
_IMPORT = re.compile(
    r"[ \t]*+(?:from[ \t]++(\.*+[\w.]*+)[ \t]*+import[ \t]*+(\([^)]{0,2000}+\)|[^\n;#]*+)"
    r"|import[ \t]++([\w., ]++))"
)
_NAME = re.compile(r"\b(\w++)(?:\s++as\s++\w++)?+\s*+(?:,|$|\))")
# A class, a function, or a model or configuration that is made as the module is imported.
_DEFINITION = re.compile(
    r"^(?:(?:class|def)[ \t]++(\w++)|(\w++) = [\w.]*?(?:from_pretrained|Arguments|Config)\()",
    re.MULTILINE,
)
_WORD = re.compile(r"\w++")
_TRAINS = re.compile(r"train(?<!\wtrain)\w*+\(")
_MAIN = "__main__"

# locate(name, importer) -> the file that an import stands for, None where it is no project's.
Locate = Callable[[str, str], "str | None"]


class Importers:
    """Which files of a folder import which, and which of them are run as scripts.

    marked: whether the folder is certainly a project's. Of others that hold many files none is
    read.
    """

    def __init__(self, root: str, depth: int, locate: Locate, *, marked: bool = True) -> None:
        self._importers: dict[str, list[str]] = defaultdict(list)
        self._scripts: set[str] = set()
        self._training: dict[str, int] = {}
        self._words: dict[str, frozenset[str]] = {}
        files = list(islice(files_below(root, depth, (".py", ".ipynb")), _MAX_FILES + 1))
        self.is_too_large = not marked and len(files) > _MAX_FILES
        files = [] if self.is_too_large else files[:_MAX_FILES]
        tops = {"", *(part.removesuffix(".py") for path in files for part in path.split(os.sep))}
        for path in files:
            self._read(path, tops, locate)
        # The folder and those in it: a script that is new is mostly in one of them.
        inner = {os.path.dirname(path) for path in files}
        self.roots = [root, *sorted(one for one in inner if os.path.dirname(one) == root)]

    def _read(self, path: str, tops: set[str], locate: Locate) -> None:
        """Note what a file imports of the modules of these names, and whether it is a script."""
        text = text_of(path)
        imports = [one for one in _imports(text) if one[0].partition(".")[0] in tops]
        for target in {one for each in imports for one in _targets(each, path, locate)}:
            if target is not None and target != path:
                self._importers[target].append(path)
        if _MAIN in text:
            self._scripts.add(path)
        if ".backward(" in text or _TRAINS.search(text) is not None:
            self._training[path] = 0
        elif "Trainer(" in text:  # perhaps to evaluate
            self._training[path] = 1

    def scripts_above(self, path: str) -> list[str]:
        """Return the scripts that lead to a module, those that train first, then those with the
        fewest files between. Each reaches something that those before it do not, while there is
        such a script: a package may hand all of its modules to each."""
        return self._in_turn(self.leading(path))

    def leading(self, path: str) -> dict[str, set[str]]:
        """Return all scripts that lead to a module, with what of it is named on the way."""
        seen, level = {path}, [path]
        leading: dict[str, set[str]] = {}
        defined = set(map("".join, _DEFINITION.findall(text_of(path))))
        # What is named of the module on the way to each file.
        named: dict[str, set[str]] = {}
        for _ in range(_MAX_HOPS):
            above: dict[str, set[str]] = defaultdict(set)
            for target in level:
                for one in self._importers.get(target, ()):
                    above[one] |= named.get(target, set())
            level = [one for one in above if one not in seen]
            for one in level:
                if one not in self._words:
                    # A package only hands on what its modules define.
                    text = "" if one.endswith("__init__.py") else text_of(one)
                    self._words[one] = frozenset(_WORD.findall(text))
                named[one] = above[one] | (defined & self._words[one])
                if self._is_script(one):
                    leading[one] = named[one]
            # Another way may name what this one does not.
            seen.update(one for one in level if named[one])
            level = [one for one in level if one not in self._scripts]
        return leading

    def _in_turn(self, leading: dict[str, set[str]]) -> list[str]:
        """Return the first scripts to be run, those that train before others, each of which names
        something that those before it do not. Those that name nothing, and import nothing that
        does, run nothing of the module."""
        named = [one for one, names in leading.items() if names]
        left = sorted(named, key=lambda one: self._training.get(one, 2))
        reached: set[str] = set()
        found: list[str] = []
        while left and len(found) < _MAX_OTHERS:
            new = [one for one in left if leading[one] - reached]
            if not new and len(found) >= MAX_SCRIPTS:
                break
            best = (new or left)[0]
            left.remove(best)
            found.append(best)
            reached |= leading[best]
        return found

    def _is_script(self, path: str) -> bool:
        """True if a file is run as a script: it says so, or nothing imports it."""
        if path in self._scripts:
            return True
        return os.path.basename(path) != "__init__.py" and not self._importers.get(path)

    def is_imported(self, path: str) -> bool:
        """True if a file of the folder imports a module."""
        return bool(self._importers.get(path))


def files_below(root: str, depth: int, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below a folder, in folders to a depth, whose names end so.

    Tests are left out: their models are toys.
    """
    for folder, folders, names in os.walk(root):
        deeper = folder.count(os.sep) - root.count(os.sep) < depth
        folders[:] = sorted(
            one for one in folders if deeper and not one.startswith(".") and one not in _SKIPPED
        )
        for name in sorted(names):
            is_test = name.startswith(_TESTS) or name.endswith("_test.py")
            if name.endswith(suffixes) and not is_test:
                yield os.path.join(folder, name)


def text_of(path: str) -> str:
    """The text of a file, or all lines of a notebook's cells; empty where it cannot be read."""
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    if not path.endswith(".ipynb"):
        return text
    return text.replace('\\"', "'").replace("\\n", "\n").replace('"', "\n")


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a file imports, relative ones with their dots, and what of them."""
    at = end = 0
    while (at := text.find("import", at)) >= 0:
        start = max(text.rfind("\n", 0, at), text.rfind(";", 0, at)) + 1
        match = _IMPORT.match(text, start) if start >= end else None
        at += len("import")
        if match is not None:
            end = match.end()
            module, names, plain = match.groups()
            if plain is None:
                yield module, names
            else:
                yield from ((part.strip().partition(" ")[0], "") for part in plain.split(","))


def _targets(imported: tuple[str, str], path: str, locate: Locate) -> Iterator[str | None]:
    """Yield the files that an import stands for: a package's names may be modules."""
    module, names = imported
    target = locate(module, path) if module.strip(".") else None
    yield target
    if target is None or target.endswith("__init__.py"):
        separator = "" if module.endswith(".") else "."
        for name in _NAME.findall(names.replace("(", "").replace("\n", " ")):
            yield locate(f"{module}{separator}{name}", path)
