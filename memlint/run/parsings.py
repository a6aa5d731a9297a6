"""Where a script reads its settings from a file, and the classes that it reads them into.

``HfArgumentParser((A, B)).parse_yaml_file(path)``, ``TrlParser((A, B))`` and
``A(**yaml.safe_load(f))`` are typed: a key is a field of one of the classes. ``yaml.safe_load``,
``OmegaConf.load``, Hydra and their like give a dict, whose keys the script takes one by one, or any
module that has it.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from memlint.engine.nodes import imports_in, walk
from memlint.engine.project import Modules, Project
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.parsing import parse_python
from memlint.source.patterns import lazy_pattern
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

# Of every script that reads into classes.
_TYPED = (b"dataclass_types", b"HfArgumentParser", b"TrlParser")
_PARSERS = lazy_pattern(rb"Parser\w{0,40}\(\s*[\[(A-Z]")
_LOADED = lazy_pattern(rb"\b(\w+)\s*=\s*(?:yaml|json)\.\w*load|\*\*\s*(?:yaml|json)\.\w*load")
# Of every line that reads into a dict, or has a library do it.
_LOADS = (
    b"yaml", b"json", b"omegaconf", b"OmegaConf", b"hydra", b"tyro", b"simple_parsing", b"fromfile",
    b"pyrallis", b"draccus", b"LightningCLI", b"dynaconf", b"ml_collections", b"anyconfig",
    b"_load", b"YAML", b"_yml",
)  # fmt: skip
_LOAD = lazy_pattern(
    rb"\b(?:yaml|json)\.\w*load\w*|\b(?:safe|full|unsafe)_load\b|\bYAML(?=\()|\bfromfile(?=\()"
    rb"|\bOmegaConf\.\w+|\bhydra\.\w+|\btyro\.\w+|\bLightningCLI(?=\()"
    rb"|(?:load|read|from)_(?:ya?ml|json)\w{0,40}(?=\()"
    rb"|^[ \t]*(?:from (?:ruamel\.)?(?:yaml|json)\b|import (?:ruamel\.)?(?:yaml|json) as\b"
    rb"|(?:import|from) (?:jsonargparse|simple_parsing|pyrallis|draccus|dynaconf|ml_collections"
    rb"|anyconfig|hydra|omegaconf)\b)",
    re.MULTILINE,
)
_WORD = lazy_pattern(r"[A-Za-z_-][\w-]*")
_FILE_NAMES = lazy_pattern(rb"""["']([^"'\n]{1,250}\.(?:ya?ml|json))["']""")
_LIBRARIES = ("trl", "transformers")
# Of a class without fields of its own.
_PLAIN = frozenset({"object", "abc.ABC", "typing.Generic", "typing.Protocol"})
_LOADERS = re.compile(r"(ruamel\.)?yaml\.(\w+\.)*\w*load\w*|.*\bYAML\.load|json\.loads?")
_INITIALIZERS = ("__post_init__", "__init__")
_MAX_BYTES = 300_000
_DEEPEST = 6


class Class(NamedTuple):
    """A class that settings are read into.

    library: the one of a library that it is, or stands on; empty where it is none. own: fields that
    the project defines. is_known: these are all fields. computes: code of the project decides some
    of them.
    """

    name: str
    library: str
    own: frozenset[str]
    is_known: bool
    computes: bool = False


class Parsing(NamedTuple):
    """One place where a script reads settings from a file.

    how: what reads them, for people. classes: None where they become a dict. suffixes: of the files
    that it may read.
    """

    line: int
    how: str
    classes: tuple[Class, ...] | None
    suffixes: tuple[str, ...]


class Parser(NamedTuple):
    """A script that reads settings, or names files.

    names: the files that it names, with their lines.
    """

    path: str
    parsings: tuple[Parsing, ...]
    names: tuple[tuple[str, int], ...]

    def fitting(self, place: str) -> list[Parsing]:
        """The places that may read the file at ``place``."""
        return [each for each in self.parsings if place.endswith(each.suffixes)]


def read_parser(path: str, modules: Modules) -> Parser | None:
    """Return what the script at ``path`` reads; None where it reads and names no such file."""
    try:
        data = read_regular(path, _MAX_BYTES)
        names = tuple(_named(data))
        typed = tuple(_typed(path, data, modules))
    except (OSError, ReadError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    covered = {suffix for each in typed for suffix in each.suffixes}
    loads = [each for each in _loads(data) if each.suffixes[0] not in covered]
    return Parser(path, (*typed, *loads), names) if names or typed or loads else None


def _typed(path: str, data: bytes, modules: Modules) -> Iterator[Parsing]:
    if (
        any(word in data for word in _TYPED)
        or (b"Parser" in data and _PARSERS.search(data))
        or _unpacks(data)
    ):
        tree = parse_python(read_source(path, data).text)
        reading = _Reading(tree, Project(path, modules))
        yield from (*reading.typed(), *reading.unpacked())


def _unpacks(data: bytes) -> bool:
    """True if a script may unpack what it loads: ``A(**config)``."""
    lines = _lines_with(data, (b"yaml", b"json")) if b"**" in data else ()
    found = (each[1] for _, line in lines for each in _LOADED.finditer(line))
    return any(not name or b"**" + name in data for name in found)


def _loads(data: bytes) -> Iterator[Parsing]:
    """Where a script reads a file into a dict, by its text alone: that can only silence."""
    for row, line in _lines_with(data, _LOADS):
        for found in _LOAD.finditer(line):
            how = " ".join(found[0].decode("ascii", "replace").split())
            is_json = "json." in how or "_json" in how
            yield Parsing(row, how, None, (".json",) if is_json else (".yaml", ".yml", ".json"))


def _lines_with(data: bytes, words: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that hold one of some words, with their rows."""
    data += b"\n"
    present = (re.escape(word) for word in words if word in data)
    places = (found.start() for word in present for found in re.finditer(word, data))
    for at in sorted({data.rfind(b"\n", 0, place) + 1 for place in places}):
        yield data.count(b"\n", 0, at) + 1, data[at : data.find(b"\n", at)]


def _named(data: bytes) -> Iterator[tuple[str, int]]:
    """The names of files in a script, with their lines."""
    line = at = 0
    for found in _FILE_NAMES.finditer(data):
        line += data.count(b"\n", at, found.start())
        at = found.start()
        yield found[1].decode("utf-8", "replace").split()[-1], line + 1


def words_of(path: str) -> frozenset[str]:
    """All words of the script at ``path``, as keys are written: ``--learning-rate`` is
    ``learning_rate``. What it asks of a dict, and what it imports, is among them."""
    try:
        text = read_regular(path, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    return frozenset(word.strip("-_").replace("-", "_") for word in set(_WORD.findall(text)))


class _Imports:
    """What names of a module mean: qualified names of imports, and its own classes."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self.names: dict[str, str] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for name, bound in imports_in(nodes):
            self.names[bound.partition(".")[0]] = bound.partition(".")[0] if "." in bound else name
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, node)

    def qualified(self, node: ast.expr) -> str:
        """The dotted name of an expression with its import in front; empty for all others."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Call):  # ``YAML().load``, ``HfArgumentParser(A).parse_yaml_file``
            inner = self.qualified(node.func)
            return ".".join([inner, *reversed(parts)]) if inner else ""
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.names.get(node.id, node.id), *reversed(parts)])


@lru_cache(maxsize=64)
def _imports_of(tree: ast.Module) -> _Imports:
    """What names of a file of the project mean: several scripts read into its classes."""
    return _Imports(walk([tree]))


class _Reading:
    def __init__(self, tree: ast.Module, project: Project) -> None:
        self._project = project
        nodes = walk([tree])
        self._imports = _Imports(nodes)
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._assigns = [node for node in nodes if isinstance(node, ast.Assign)]

    def typed(self) -> Iterator[Parsing]:
        """``HfArgumentParser((A, B))`` and its like, where they read files."""
        methods = {node.func.attr for node in self._calls if isinstance(node.func, ast.Attribute)}
        for call in self._calls:
            last = self._imports.qualified(call.func).rpartition(".")[2]
            if "Parser" not in last or last == "ArgumentParser":
                continue
            given = next((k.value for k in call.keywords if k.arg == "dataclass_types"), None)
            given = call.args[0] if call.args else given
            suffixes = _suffixes(last, methods)
            if isinstance(given, ast.Name) and given.id not in self._imports.classes:
                given = self._assigned(given) or given
            if given is not None and suffixes and _may_be_classes(given, last):
                yield Parsing(call.lineno, last, self._classes(given), suffixes)

    def _classes(self, given: ast.expr) -> tuple[Class, ...]:
        """The classes of a parser; one that is not known stands for what cannot be told."""
        nodes = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        return tuple(map(self._class, nodes))

    def _assigned(self, name: ast.Name) -> ast.expr | None:
        """What a name is assigned, nearest above: one place alone is certain."""
        values = [
            node.value
            for node in self._assigns
            if any(isinstance(each, ast.Name) and each.id == name.id for each in node.targets)
        ]
        return values[0] if len({ast.dump(value) for value in values}) == 1 else None

    def _class(self, node: ast.expr) -> Class:
        name = self._imports.qualified(node)
        return _resolved(self._project, name, self._imports, None)

    def unpacked(self) -> Iterator[Parsing]:
        """``A(**config)`` where ``config`` is all that a file holds."""
        for call in self._calls:
            given = [each.value for each in call.keywords if each.arg is None]
            for how in filter(None, map(self._loaded, given)):
                found = self._class(call.func)
                suffixes = (".json",) if how.startswith("json.") else (".yaml", ".yml")
                if found.is_known:
                    yield Parsing(call.lineno, how, (found,), suffixes)

    def _loaded(self, value: ast.expr) -> str:
        """What loads a dict from a file, here or where its name is assigned; else empty."""
        if isinstance(value, ast.Name):
            value = self._assigned(value) or value
        name = self._imports.qualified(value.func) if isinstance(value, ast.Call) else ""
        return name if _LOADERS.fullmatch(name) else ""


def _may_be_classes(given: ast.expr, parser: str) -> bool:
    """True if what a parser is given may be classes: other things are called parsers too."""
    if parser in ("HfArgumentParser", "TrlParser") or isinstance(given, ast.Tuple | ast.List):
        return True
    name = given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", "")
    return name[:1].isupper()


def _suffixes(parser: str, methods: set[str]) -> tuple[str, ...]:
    """Which files a parser reads, by its class and the methods that the script calls."""
    if parser == "TrlParser":
        return (".yaml", ".yml")
    if parser != "HfArgumentParser":
        return (".yaml", ".yml", ".json")  # a class of the project's
    found: list[str] = []
    if any(name.startswith(("parse_yaml", "parse_dict")) for name in methods):
        found += [".yaml", ".yml"]
    if any(name.startswith(("parse_json", "parse_dict")) for name in methods):
        found.append(".json")
    return tuple(found)


def _resolved(
    project: Project, name: str, imports: _Imports, home: str | None, depth: int = 0
) -> Class:
    """The class that a name means in the project. home: the module's file; None: the script's."""
    unknown = Class(name, "", frozenset(), is_known=False)
    if not name or depth > _DEEPEST:
        return unknown
    if name in imports.classes:
        return _class_of(project, imports.classes[name], imports, home, depth)
    if name in _PLAIN:
        return Class(name, "", frozenset(), is_known=True)
    if name.partition(".")[0] in _LIBRARIES:
        return Class(name, name, frozenset(), is_known=True)
    found = project.find(name, home)
    if found is None:
        return unknown
    module, inner = found
    elsewhere = _imports_of(module.tree)
    head, _, rest = inner.partition(".")
    full = ".".join(filter(None, (elsewhere.names.get(head, head), rest)))
    return _resolved(project, full, elsewhere, module.path, depth + 1)


def _class_of(
    project: Project, node: ast.ClassDef, imports: _Imports, home: str | None, depth: int
) -> Class:
    """A class of the project, with what it stands on."""
    own = frozenset(_fields(node))
    library, is_known = "", True
    computes = any(getattr(each, "name", "") in _INITIALIZERS for each in node.body)
    for base in node.bases:
        name = imports.qualified(base.value if isinstance(base, ast.Subscript) else base)
        if name == node.name:
            is_known = False
            continue
        above = _resolved(project, name, imports, home, depth + 1)
        own |= above.own
        library = library or above.library
        is_known &= above.is_known
        computes |= above.computes
    return Class(node.name, library, own, is_known, computes)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))


def relative(path: str, root: str) -> str:
    """A path for people."""
    return os.path.relpath(path, root).replace(os.sep, "/")
