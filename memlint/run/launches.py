"""Launch commands against the rules: what a command gives to the script that it starts.

The script is checked once more for each command, with the command's settings appended to its text
(``memlint.script.command_line``). What is found at one of them belongs to the command: it is
reported where the value is written, and edits go there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memlint.recipes.launch import Command, Flag, kind_of, read_commands
from memlint.recipes.launch_kinds import is_launch_file, may_launch
from memlint.rule.edits import Edit, RenameItem, ReplaceExpression, SetItem
from memlint.rule.findings import Applicability, Fix, Violation
from memlint.run.engine import OnError, Prefilter, check_source
from memlint.source import Source, Span
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.digests import digest_of
from memlint.source.reading import read_source

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.rule import Rule

NO_COMMANDS = "starts no training script: nothing to check"
# On whose versions it depends what is found.
LIBRARIES = frozenset({"trl", "transformers"})
_PARSERS = re.compile(rb"parse_args\(|parse_known_args\(|HfArgumentParser|TrlParser")
_MAX_BYTES = 300_000
_MAX_COMMANDS = 40
_MAX_PARENTS = 4
_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
_MAX_FILES = 200
_MAX_FOLDERS = 60
_LEAD = "\n_memlint_command_line = "

Tables = Callable[[Source], "Api"]


class _Place(NamedTuple):
    """Where a piece of the appended dict comes from. is_name: it is the option, not its value."""

    span: Span
    flag: Flag
    is_name: bool


class Launched(NamedTuple):
    """A script with the settings of one command appended. begin: where they begin, in bytes."""

    source: Source
    begin: int
    mapping: Span
    places: dict[Span, _Place]


def with_command(script: Source, command: Command) -> Launched:
    """``script`` with the settings of ``command``."""
    head = f"{script.text}{_LEAD}"
    parts: list[str] = ["{"]
    at = begin = len(head.encode("utf-8", "surrogatepass"))
    at += 1
    places: dict[Span, _Place] = {}
    flags = {flag.name: flag for flag in command.settings if flag.form == "option"}
    for flag in flags.values():
        name, value = repr(flag.name), _written(flag)
        for text, is_name in ((name, True), (value, False)):
            size = len(text.encode("utf-8", "surrogatepass"))
            places[Span(at, at + size)] = _Place(Span(at, at + size), flag, is_name)
            parts.append(f"{text}, " if not is_name else f"{text}: ")
            at += size + 2
    parts.append("}")
    source = Source(script.path, f"{head}{''.join(parts)}\n")
    return Launched(source, begin, Span(begin, at + 1), places)


def appended(script: Source, command_line: str) -> Source:
    """``script`` with settings as a dict at its end."""
    return Source(script.path, f"{script.text}{_LEAD}{command_line}\n")


def in_script(violations: Sequence[Violation], end: int) -> list[Violation]:
    """What is found in the first ``end`` bytes; fixes that reach beyond them become advice."""
    found: list[Violation] = []
    for each in violations:
        fix = each.fix
        if fix is not None and any(_reach(edit) > end for edit in fix.edits):
            fix = Fix(fix.message, (), Applicability.DISPLAY)
        if each.span.end <= end:
            found.append(each._replace(fix=fix))
    return found


def _reach(edit: Edit) -> int:
    return max((one.end for one in vars(edit).values() if isinstance(one, Span)), default=0)


class CommandSettings(NamedTuple):
    """What launch commands give to a script.

    text: as a dict of Python; empty where they give nothing. relied_on: the files of these
    commands, and the folders that were searched for more.
    """

    text: str
    relied_on: tuple[str, ...]

    def digests(self) -> tuple[tuple[str, str], ...]:
        """What the settings rely on, each with a digest."""
        return tuple((path, digest_of(path)) for path in self.relied_on)


class Launches:
    """The launch commands around scripts; each file of commands is read once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, ...]] = {}
        self._commands: dict[str, list[Command]] = {}

    def of(self, place: str, data: bytes) -> CommandSettings | None:
        """What all commands that start the script at ``place`` give to it.

        A setting that they give differently, or that some of them do not give, is not known. None
        where the script reads no command line.
        """
        if _PARSERS.search(data) is None:
            return None
        script = os.path.abspath(place)
        starting = [
            (file, command)
            for file in self._around(script)
            for command in self._of_file(file)
            if _may_start(command, file, script)
        ]
        commands = [command for _, command in starting]
        every = [{flag.name: _written(flag) for flag in one.settings} for one in commands]
        settings = {
            name: value if all(other.get(name) == value for other in every) else "None"
            for given in every
            for name, value in given.items()
        }
        inner = ", ".join(f"{name!r}: {value}" for name, value in sorted(settings.items()))
        files = dict.fromkeys(file for file, _ in starting)
        folders = dict.fromkeys((*_folders(script), *map(os.path.dirname, files)))
        return CommandSettings(f"{{{inner}}}" if settings else "", (*folders, *files))

    def _around(self, script: str) -> list[str]:
        """The files of commands in the script's folder, those above, and the folders in them."""
        files: list[str] = []
        for folder in _folders(script):
            for path in (folder, *self._listed(folder, folders=True)[:_MAX_FOLDERS]):
                files += self._listed(path, folders=False)
        return list(dict.fromkeys(files))[:_MAX_FILES]

    def _listed(self, folder: str, *, folders: bool) -> tuple[str, ...]:
        key = f"{folder}{os.sep}" if folders else folder
        if key not in self._files:
            try:
                with os.scandir(folder) as entries:
                    self._files[key] = tuple(
                        sorted(
                            entry.path
                            for entry in entries
                            if (
                                entry.is_dir(follow_symlinks=False) and entry.name[:1] != "."
                                if folders
                                else is_launch_file(entry.name) and entry.is_file()
                            )
                        )
                    )
            except OSError:
                self._files[key] = ()
        return self._files[key]

    def _of_file(self, path: str) -> list[Command]:
        if path not in self._commands:
            self._commands[path] = []
            try:
                data = read_regular(path, _MAX_BYTES)
                if may_launch(data):
                    self._commands[path] = commands_of(read_source(path, data))
            except (OSError, ReadError):
                pass
        return self._commands[path]


def _may_start(command: Command, file: str, script: str) -> bool:
    """Whether a command starts the script, or one of its name in a folder that is not known."""
    target = command.target
    if target is None or target.name != os.path.basename(script):
        return False
    paths = list(_paths(command, file))
    if not paths:
        return True
    return next(filter(os.path.isfile, paths), None) == script


def _written(flag: Flag) -> str:
    """A value as Python; that of an option that may be followed by others is not known."""
    return repr(list(flag.value) if isinstance(flag.value, tuple) else flag.value)


def check_launch_source(
    source: Source,
    rules: Sequence[Rule],
    api: Api,
    *,
    place: str,
    on_error: OnError | None = None,
    prefilter: Prefilter | None = None,
    by_code: frozenset[str] | None = None,
    relied_on: set[str] | None = None,
) -> list[Violation]:
    """What ``rules`` find in the commands of ``source``, in order of place."""
    violations: list[Violation] = []
    for command in commands_of(source):
        paths = list(_paths(command, place))
        found = next(filter(os.path.isfile, paths), None)
        if relied_on is not None:
            relied_on.update(paths)
        script = _script(found) if found is not None else None
        if script is None:
            continue
        launched = with_command(script, command)
        try:
            violations += [
                _at_command(each, launched)
                for each in check_source(
                    launched.source,
                    rules,
                    api,
                    unused_suppressions=False,
                    on_error=on_error,
                    prefilter=prefilter,
                    by_code=by_code,
                    launched=True,
                )
                if each.span.start > launched.begin and each.span in launched.places
            ]
        except (SyntaxError, ValueError):
            continue
    return violations


def commands_of(source: Source) -> list[Command]:
    """The commands that start a script with settings of its own."""
    kind = kind_of(source.path)
    commands = read_commands(source.text, kind) if kind is not None else ()
    return [
        command
        for command in commands
        if command.settings and command.target is not None and command.target.kind == "script"
    ][:_MAX_COMMANDS]


def _paths(command: Command, place: str) -> Iterator[str]:
    """The files that a command in the file at ``place`` may start, the likeliest first."""
    target = command.target
    if target is None or target.text is None or not target.text.endswith(".py"):
        return
    if command.folder is None or os.path.isabs(os.path.join(command.folder, target.text)):
        return
    for folder in _folders(place):
        yield os.path.normpath(os.path.join(folder, command.folder, target.text))


def _folders(place: str) -> Iterator[str]:
    """The folders that a file's commands may be run in: its own, and those up to the root."""
    folder = os.path.dirname(os.path.abspath(place))
    for _ in range(_MAX_PARENTS):
        yield folder
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOTS):
            return
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _script(path: str) -> Source | None:
    """The script at ``path`` if a parser of its own reads the command line."""
    try:
        data = read_regular(path, _MAX_BYTES)
        if _PARSERS.search(data) is None:
            return None
        source = read_source(path, data)
        ast.parse(source.text)
    except (OSError, ReadError, SyntaxError, ValueError):
        return None
    return source


# -- back to the command --------------------------------------------------------------------------


def _at_command(violation: Violation, launched: Launched) -> Violation:
    """A finding at one of the appended settings, where the command gives it."""
    place = launched.places[violation.span]
    span = place.flag.option_span if place.is_name else place.flag.span
    fix = violation.fix
    if fix is not None and fix.edits:
        edits = [_edit_at_command(edit, launched) for edit in fix.edits]
        if None in edits:
            fix = Fix(fix.message, (), Applicability.DISPLAY)
        else:
            fix = fix._replace(edits=tuple(edit for edit in edits if edit is not None))
    return violation._replace(span=span, fix=fix)


def _edit_at_command(edit: Edit, launched: Launched) -> Edit | None:
    """The edit of the command: one plain word for another; None where it takes more."""
    match edit:
        case ReplaceExpression(span=span, source=source) if span in launched.places:
            return _value_edit(launched.places[span].flag, source)
        case SetItem(mapping=mapping, key=key, source=source) if mapping == launched.mapping:
            flag = _flag(launched, key)
            return _value_edit(flag, source) if flag is not None else None
        case RenameItem(mapping=mapping, old=old, new=new) if mapping == launched.mapping:
            flag = _flag(launched, old)
            if flag is None or _flag(launched, new) is not None:
                return None
            return ReplaceExpression(flag.option_span, _option_like(flag.option, new))
        case _:
            return None


def _flag(launched: Launched, name: str) -> Flag | None:
    return next((one.flag for one in launched.places.values() if one.flag.name == name), None)


def _value_edit(flag: Flag, source: str) -> Edit | None:
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return None
    text = str(value)
    if not flag.is_plain_word or value is None or not re.fullmatch(r"[\w.,:/@%+-]+", text, re.A):
        return None
    return ReplaceExpression(flag.span, text)


def _option_like(old: str, new: str) -> str:
    """``new`` with the dashes of the option ``old``."""
    dashes = old[: len(old) - len(old.lstrip("-"))]
    return dashes + (new.replace("_", "-") if "-" in old.lstrip("-") else new)
