"""Who reads a file of settings, and how that is known.

A YAML or JSON file says nothing of its reader. This decides it, in this order:

1. Launch commands that name the file: ``trl sft --config``, ``axolotl train``, ``tune run``; or a
   script, which is looked into.
2. Scripts that name the file themselves.
3. Scripts that read a file of no certain name (from the command line) and take all of its keys, or
   ask for one of them where they read a dict.
4. Its keys, where every one was an option of one program, and nothing else claims the file.
5. Launch commands that a README shows.

A script that reads into classes of trl or transformers makes it TRL's; keys that the project's own
classes define are the project's. Where readers disagree, or one cannot be followed, nobody is
certain to read it, and nothing is said of the file. What a command gives to a program is that
program's, whoever asks for its keys too: fixes of such keys are unsafe. Every answer has its
evidence.
"""

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain

from memlint.engine.project import Modules, project_of
from memlint.recipes.commands import kind_of_command
from memlint.recipes.document import MappingNode, merged
from memlint.recipes.kinds import Kind, Reader, is_option, looks_like_training, reader_by_keys
from memlint.recipes.launch import Command
from memlint.run.parsings import Parser, Parsing, read_parser, relative, words_of
from memlint.source import Source
from memlint.source.asking import Asking
from memlint.source.diagnostics import ReadError
from memlint.source.kept import kept
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

# Keys of these files are no other program's, whoever hands the file on.
_CERTAIN = frozenset({Kind.TORCHTUNE, Kind.ACCELERATE, Kind.DEEPSPEED})
# The packages whose own code is the program, by what its recipes are called.
_PACKAGES = {
    Kind.TRL: "trl",
    Kind.AXOLOTL: "axolotl",
    Kind.LLAMA_FACTORY: "llamafactory",
    Kind.TORCHTUNE: "torchtune",
}
# Options that name files of the launcher, or of DeepSpeed.
_FILES = dict.fromkeys(("deepspeed", "deepspeed_config"), Kind.DEEPSPEED)
_LAUNCHER_FILES = {
    "config_file": Kind.ACCELERATE,
    "accelerate_config": Kind.ACCELERATE,
    "deepspeed_config_file": Kind.DEEPSPEED,
}
# Of more scripts those alone that read settings are looked at again.
_MAX_DIGESTS = 100


class Launch(NamedTuple):
    """A launch command and its file, at an absolute path."""

    source: Source
    command: Command

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def row(self) -> int:
        """The line of its file, or of its cell, on which the command begins."""
        return self.source.location(self.command.span.start).row


class Readers:
    """Answers for the files of one project, below ``root``.

    scripts: its scripts; each is read when somebody first asks who reads a file by its keys.
    is_whole: there are no others.
    """

    def __init__(
        self, root: str, scripts: Sequence[str], modules: Modules, *, is_whole: bool = True
    ) -> None:
        self._root = root
        self._scripts = scripts
        self._is_whole = is_whole
        self._asking = Asking(root, self._is_of_program)
        self._modules = modules
        self._parsers: dict[str, Parser | None] = {}

    @cached_property
    def _by_path(self) -> dict[str, Parser]:
        """The scripts that read settings or name files."""
        parsers = map(self._parser, self._scripts)
        return {each.path: each for each in parsers if each is not None}

    def _parser(self, path: str) -> Parser | None:
        """Return what a script reads and names."""
        if path not in self._parsers:
            self._parsers[path] = read_parser(path, self._modules)
        return self._parsers[path]

    @property
    def paths(self) -> tuple[str, ...]:
        """The scripts on which answers so far depend."""
        scripts = self._scripts if self._parsers else ()
        if len(scripts) > _MAX_DIGESTS:
            scripts = [path for path, parser in self._parsers.items() if parser is not None]
        return (*scripts, *chain(*self._asking.asked.values()))

    def of(
        self, place: str, root: MappingNode, uses: Sequence[Launch], shown: Sequence[Launch] = ()
    ) -> Reader | None:
        """What reads the file at ``place``; None for what is no file of settings of ours.

        root: its mapping. uses: the commands that name it. shown: those of pages that people read.
        A reader without a kind is one that is not known, or not ours.
        """
        keys = frozenset(key for key in merged(root) if isinstance(key, str))
        named = [self._of_command(use, place, keys) for use in uses if not _checks(use.command)]
        if named:
            return _agreed(named)
        by_keys = reader_by_keys(root)
        if by_keys is not None and by_keys.kind in _CERTAIN:
            return by_keys
        if by_keys is None and not looks_like_training(root):
            return None
        naming = [each for each in self._by_path.values() if _names_file(each, place, self._root)]
        if naming:
            return _agreed([self._of_naming(each, place, keys) for each in naming])
        return self._of_any(place, keys, by_keys, shown)

    # -- by commands -----------------------------------------------------------------------------

    def _of_command(self, use: Launch, place: str, keys: Collection[str]) -> Reader:
        command = use.command
        where = f"{relative(use.path, self._root)}:{use.row}"
        launcher = {flag.name: (flag, _LAUNCHER_FILES) for flag in command.launcher}
        for flag, kinds in (*launcher.values(), *((each, _FILES) for each in command.settings)):
            kind = kinds.get(flag.name)
            text = flag.value if isinstance(flag.value, str) else ""
            if kind is not None and means(text, place, use.path, command, self._root):
                return Reader(kind, f"{where} gives it to {kind.value} as `--{flag.name}`")
        kind = kind_of_command(command)
        if kind is not None:
            return Reader(kind, f"{where} starts {kind.value} with it")
        places = (_places(each, use.path, command, self._root) for each in command.scripts)
        script = next(filter(os.path.isfile, chain(*places)), None)
        parser = self._parser(script) if script is not None and script in self._scripts else None
        target = command.target.text if command.target is not None else None
        if parser is None:
            said = f"`{target}`, which reads it in a way that memlint cannot follow"
            return Reader(None, f"{where} gives it to {said}")
        read = self._of_parser(parser, place, keys)
        return read._replace(evidence=f"{where} gives it to {read.evidence}")

    # -- by scripts ------------------------------------------------------------------------------

    def _of_naming(self, parser: Parser, place: str, keys: Collection[str]) -> Reader:
        if parser.fitting(place):
            return self._of_parser(parser, place, keys)
        line = next(line for text, line in parser.names if _ends(place, text))
        where = f"{relative(parser.path, self._root)}:{line}"
        return Reader(None, f"{where} names it, and what reads it is not known")

    def _of_parser(self, parser: Parser, place: str, keys: Collection[str]) -> Reader:
        """What a script that certainly reads the file makes of it."""
        where = relative(parser.path, self._root)
        into = [each for each in parser.fitting(place) if each.classes is not None]
        if len(into) > 1:
            into = [each for each in into if _takes(each, keys)] or into
        if not into or len({each.classes for each in into}) > 1:
            return Reader(None, f"{where}, which takes keys as it likes")
        return _reader(into[0], f"{where}:{into[0].line}", parser.path)

    def _of_any(
        self, place: str, keys: Collection[str], by_keys: Reader | None, shown: Sequence[Launch]
    ) -> Reader | None:
        """The reader of a file that nothing names: a script that takes all keys, or the program."""
        package = _PACKAGES.get(by_keys.kind) if by_keys is not None and by_keys.kind else None
        claims: list[Reader] = []
        for parser in self._by_path.values():
            if package is not None and self._is_of_package(parser.path, package):
                continue
            where = relative(parser.path, self._root)
            for parsing in parser.fitting(place):
                if parsing.classes is not None:
                    if _may_take(parsing, keys):
                        claims.append(_reader(parsing, f"{where}:{parsing.line}", parser.path))
                elif any(self._asked(parser, keys)):
                    said = f"{where}:{parsing.line} may read it by `{parsing.how}`"
                    claims.append(Reader(None, said))
        if claims:
            return _agreed(claims)
        if not self._is_whole:
            return Reader(None, "the project has more files than memlint looks through for readers")
        return by_keys or self._by_page(place, keys, shown)

    def _by_page(self, place: str, keys: Collection[str], shown: Sequence[Launch]) -> Reader:
        read = _agreed([self._of_command(one, place, keys) for one in shown])
        return read or Reader(None, "not every key is an option of one program")

    def _asked(self, parser: Parser, keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the keys that are words of a script that reads a dict or of its importers."""
        for path in self.importing(parser.path):
            yield from ((key, path) for key in self._words_of(path).intersection(keys))

    @kept
    def importing(self, parser: str) -> tuple[str, ...]:
        """Return a script and those that may import it."""
        name = os.path.splitext(os.path.basename(parser))[0]
        return (parser, *(path for path in self._scripts if name in self._words_of(path)))

    @kept
    def trains_own_code(self, path: str) -> bool:
        """True unless trainers of the script at ``path`` and its importers train known classes."""
        scripts = self.importing(path)
        trained = [answer for script in scripts for answer in self._train_own_code(script)]
        return any(trained) or not trained

    def _train_own_code(self, path: str) -> Iterator[bool]:
        """Yield for each trainer of a script whether its model may be of a class that transformers
        does not have; True for a script that cannot be read."""
        from memlint.api.lookup import newest_tables
        from memlint.script.model import build_script

        try:
            source = read_source(path)
            if b"Trainer" not in source.data:
                return
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes and the like in the user's code
                project = project_of(path, source.data, self._modules)
                script = build_script(source, newest_tables(), project)
        except (ReadError, SyntaxError, RecursionError):
            yield True
            return
        yield from (trainer.trains_own_code for trainer in script.trainers)

    @kept
    def _words_of(self, path: str) -> frozenset[str]:
        return words_of(path)

    # -- others ----------------------------------------------------------------------------------

    def elsewhere(
        self, place: str, root: MappingNode, keys: Collection[str], gone: Collection[str]
    ) -> dict[str, str]:
        """Those of ``keys``, which a fix changes, that something beside the reader of the file at
        ``place`` may ask it for, each with where that stands. root: the file's mapping. gone:
        classes that have none of the keys: who asks their objects stops at the target anyway."""
        all_keys = frozenset(key for key in merged(root) if isinstance(key, str))
        asked: dict[str, str] = {}
        for path in self._scripts:
            parser = None if self._is_of_program(path) else self._parser(path)
            if parser is not None:
                asked.update(self._asked_by(parser, place, all_keys, keys))
        self._asking.read(keys)
        for name, paths in self._asking.asked.items():
            owner, _, key = name.rpartition(".")
            for path in paths if key in keys and owner not in gone else ():
                if path != place and not self._is_apart(path, place):
                    asked.setdefault(key, path)
        return {key: relative(path, self._root) for key, path in asked.items()}

    def _is_apart(self, path: str, place: str) -> bool:
        """True if what asks for a key reads other files alone."""
        parser = self._parser(path) if path.endswith(".py") else None
        return parser is not None and bool(parser.parsings) and not parser.fitting(place)

    def _is_of_program(self, path: str) -> bool:
        """True if a file is a script of a program that reads recipes, or of its tests."""
        packages = _PACKAGES.values()
        return path.endswith(".py") and any(self._is_of_package(path, each) for each in packages)

    def _is_of_package(self, path: str, package: str) -> bool:
        """True if a script belongs to the program that reads its recipes, or to its tests."""
        inner = path[len(self._root) :].split(os.sep)[:-1]
        return package in self._packages or package in inner

    @cached_property
    def _packages(self) -> frozenset[str]:
        """The programs that read recipes whose own project this is."""
        return frozenset(
            each
            for each in _PACKAGES.values()
            for folder in (self._root, os.path.join(self._root, "src"))
            if os.path.isfile(os.path.join(folder, each, "__init__.py"))
        )

    def _asked_by(
        self, parser: Parser, place: str, all_keys: frozenset[str], keys: Collection[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the keys that a script may ask any file for, each with its path."""
        fitting = parser.fitting(place)
        if any(each.classes is None for each in fitting):
            yield from self._asked(parser, keys)
        for parsing in fitting:
            if _may_take(parsing, all_keys) and _reader(parsing, "", "").kind is None:
                yield from ((key, parser.path) for key in keys)


def _checks(command: Command) -> bool:
    """True for a command of memlint itself, which looks at a file and trains with nothing."""
    target = command.target
    return target is not None and target.kind == "module" and target.text == "memlint"


def _agreed(readers: Sequence[Reader]) -> Reader | None:
    """The one that several readers are; none of ours where they differ."""
    if not readers:
        return None
    unknown = next((each for each in readers if each.kind is None), None)
    if unknown is not None:
        return unknown
    first, *others = {each._replace(evidence=""): each for each in readers}.values()
    if any(each.kind is not first.kind for each in others):
        several = "; ".join(each.evidence for each in (first, *others[:2]))
        return Reader(None, f"several programs read it: {several}")
    said = "; or ".join(each.evidence for each in (first, *others[:2]))
    return first._replace(evidence=said, also=tuple(others))


def _reader(parsing: Parsing, where: str, path: str) -> Reader:
    """The reader that a typed parsing in the script at ``path`` is."""
    classes = parsing.classes or ()
    names = ", ".join(f"`{each.name}`" for each in classes)
    evidence = f"{where}, which reads it into {names}"
    unknown = [each.name for each in classes if not each.is_known]
    if unknown:
        return Reader(None, f"{evidence}; what `{unknown[0]}` takes is not known")
    own = frozenset[str]().union(*(each.own for each in classes))
    libraries = tuple(each.library for each in classes if each.library)
    if not any(_is_config(each) for each in libraries):
        return Reader(None, f"{evidence}: the project's own")
    computes = any(each.computes and _is_config(each.library) for each in classes)
    return Reader(Kind.TRL, evidence, libraries, own, computes, path)


def _is_config(name: str) -> bool:
    """True if a class of a library configures a trainer."""
    return bool(name) and is_option(name, "per_device_train_batch_size")


def _takes(parsing: Parsing, keys: Collection[str]) -> bool:
    """True if every key is a field of one of the classes, in some release."""
    classes = parsing.classes or ()
    own = frozenset({"config"}).union(*(each.own for each in classes))
    libraries = [each.library for each in classes if each.library]
    return all(key in own or any(is_option(each, key) for each in libraries) for key in keys)


def _may_take(parsing: Parsing, keys: Collection[str]) -> bool:
    return any(not each.is_known for each in parsing.classes or ()) or _takes(parsing, keys)


# -- names of files -----------------------------------------------------------------------------


def names_of_files(command: Command) -> dict[str, list[str]]:
    """The texts of a command that may be names of files, by the last part of the name."""
    names: dict[str, list[str]] = {}
    for text in dict.fromkeys((*_words(command), *command.scripts)):
        last = os.path.normpath(text).replace("\\", "/").rpartition("/")[2] if text else ""
        names.setdefault(last, []).append(text)
    return names


def _words(command: Command) -> Iterator[str]:
    """The texts of a command that may be names of files, but for its script's."""
    if command.target is not None and command.target.kind == "recipe":
        yield command.target.text or ""
    for flag in (*command.launcher, *command.settings):
        values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
        yield from (each for each in values if isinstance(each, str))
    yield from (each for each in command.positionals if each)


def means(text: str, place: str, beside: str, command: Command | None, root: str) -> bool:
    """True if a word in a file means the file at ``place``, or one that ends so."""
    if not text or not _ends(place, text):
        return False
    there = [path for path in _places(text, beside, command, root) if os.path.isfile(path)]
    return place in there if there else True


def _places(text: str, beside: str, command: Command | None, root: str) -> Iterator[str]:
    """Where a file of this name may be: from the project's folder, and from that of the command."""
    inner = command.folder if command is not None else ""
    if inner is None or os.path.isabs(text):
        return
    folder = os.path.dirname(beside)
    while True:
        yield os.path.normpath(os.path.join(folder, inner, text))
        if folder == root or not folder.startswith(root + os.sep):
            break
        folder = os.path.dirname(folder)
    if folder != root:
        yield os.path.normpath(os.path.join(root, inner, text))


def _ends(place: str, text: str) -> bool:
    words = os.path.normpath(text).replace("\\", "/").lstrip("/")
    while words.startswith("../"):
        words = words[3:]
    return f"/{place}".replace("\\", "/").endswith(f"/{words}")


def _names_file(parser: Parser, place: str, root: str) -> bool:
    base = os.path.basename(place)
    return any(
        text.endswith(base) and means(text, place, parser.path, None, root)
        for text, _ in parser.names
    )
