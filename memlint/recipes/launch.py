"""Launch commands in shell scripts, Makefiles, justfiles, Dockerfiles and notebooks."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from memlint.recipes.files import PROGRAMS, STARTS, kind_of
from memlint.recipes.launch_files import READERS, Place, read_cells
from memlint.recipes.programs import Argument, Launch, launch_of
from memlint.recipes.shell import Simple
from memlint.recipes.words import Word
from memlint.source.record import Record
from memlint.source.text import Source, Span

# The metadata of all notebooks name Python.
NOTEBOOK_STARTS = re.compile(rf"![^\n!]*{PROGRAMS}|%%\s*(?:bash|sh|shell|script)\b")
# A longer text is no script that a person wrote.
_LONGEST = 2_000_000
# Of a file; who starts more training runs in a file generated it.
_MOST_COMMANDS = 200
_SETTINGS = (".yaml", ".yml", ".json")


__all__ = ["Command", "Flag", "Target", "commands_in", "kind_of", "read_commands"]


class Flag(Record):
    """One setting of a command: an option, an override (``key=value``) or an environment variable.

    name: without dashes, with underscores: as parsers call it. option: as it is written.
    value: its text; a tuple of texts where several follow; True for an option without a value;
    None where it is unknown.
    span: bytes of the value where it is written, maybe where a variable is set; of the option
    where there is no value.
    is_plain_word: another plain word may be written at ``span``, and changes this setting alone.
    form: ``option``, ``override`` or ``removal`` (``~key``).
    is_plain_option: the option is written without quotes inside it, so that it can be renamed.
    readers, option_readers: the other commands, by their place, that get the value or the option
    from the same bytes: what is written there is theirs as well.
    """

    name: str
    value: str | tuple[str, ...] | bool | None
    span: Span
    is_plain_word: bool
    option: str = ""
    option_span: Span = Span(0, 0)
    form: str = "option"
    is_plain_option: bool = True
    readers: tuple[Span, ...] = ()
    option_readers: tuple[Span, ...] = ()


class Target(Record):
    """What a command starts.

    kind: ``script`` (a path), ``module`` (a dotted name), ``recipe`` (the path of a recipe),
    ``name`` (of one that the program knows: ``sft``, ``lora_finetune_single_device``).
    text: None where it is unknown. name: the last part of a path, known even if the folder is not.
    """

    kind: str
    text: str | None
    name: str | None
    span: Span


class Command(Record):
    """One launch command.

    program: ``accelerate``, ``torchrun``, ``deepspeed``, ``python``, ``trl``, ``tune``,
    ``llamafactory`` or ``axolotl``. starts: the program that a launcher starts (``trl`` of
    ``accelerate launch -m trl.scripts.sft``), or ``program`` itself.
    launcher: settings of the launcher. settings: those of what it starts, in their order; of
    equal names the last one holds. positionals: other words, None where unknown.
    folder: the one that it changes into first, from where the file runs; None where unknown.
    has_unknown_arguments: there may be settings that are not listed.
    """

    program: str
    starts: str
    target: Target | None
    launcher: tuple[Flag, ...]
    settings: tuple[Flag, ...]
    positionals: tuple[str | None, ...]
    environment: tuple[Flag, ...]
    folder: str | None
    has_unknown_arguments: bool
    span: Span

    def setting(self, name: str) -> Flag | None:
        """The last setting of this name."""
        return _last(self.settings, name)

    def launcher_setting(self, *names: str) -> Flag | None:
        """The last setting of the launcher that has one of these names."""
        return _last(self.launcher, *names)

    @property
    def recipe(self) -> str | None:
        """Path or name of the recipe that it is given; None without one, or where unknown.

        A script may get it as its one argument without an option: ``python train.py sft.yaml``.
        """
        if self.target is not None and self.target.kind == "recipe":
            return self.target.text
        flag = self.setting("config")
        if flag is not None:
            return flag.value if isinstance(flag.value, str) else None
        alone = self.positionals[0] if len(self.positionals) == 1 and self.starts_file else None
        return alone if alone is not None and alone.endswith(_SETTINGS) else None

    @property
    def starts_file(self) -> bool:
        """True if it starts a file of Python, by its path or as a module."""
        return self.target is not None and self.target.kind in ("script", "module")

    @property
    def scripts(self) -> tuple[str, ...]:
        """The paths that its script may have, from where it runs, the likeliest first: those of a
        module in the folders of ``PYTHONPATH``, or in ``src``, where a project installs it from."""
        target = self.target
        if target is None or target.text is None or not self.starts_file:
            return ()
        if target.kind == "script":
            return (target.text,)
        path = target.text.replace(".", "/")
        searched = _text(_last(self.environment, "PYTHONPATH")) or ""
        folders = dict.fromkeys(("", *searched.split(":"), "src"))
        return tuple(
            posixpath.join(folder, f"{path}{end}")
            for folder in folders
            for end in (".py", "/__main__.py")
        )

    @property
    def config_file(self) -> str | None:
        """Path of the configuration of accelerate."""
        return _text(self.launcher_setting("config_file", "accelerate_config"))

    @property
    def deepspeed_file(self) -> str | None:
        """Path of the configuration of DeepSpeed."""
        given = self.launcher_setting("deepspeed_config_file")
        return _text(given or self.setting("deepspeed") or self.setting("deepspeed_config"))

    @property
    def mixed_precision(self) -> str | None:
        """What the launcher is told of mixed precision."""
        return _text(self.launcher_setting("mixed_precision"))

    @property
    def num_processes(self) -> int | None:
        """The processes that it starts on a machine; LLaMA-Factory has them in the environment."""
        given = self.launcher_setting("num_processes", "nproc_per_node", "num_gpus")
        if self.program == "llamafactory":
            given = given or _last(self.environment, "NPROC_PER_NODE")
        text = _text(given) or ""
        chosen = _text(self.launcher_setting("include")) or ""
        if not text and self.program == "deepspeed" and ":" in chosen and "@" not in chosen:
            # ``--include localhost:0,1``: the GPUs of one machine.
            return chosen.count(",") + 1
        return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


# The commands of a file are asked for as recipes, as what they start, and for its neighbours.
@lru_cache(maxsize=1024)
def read_commands(text: str, kind: str) -> tuple[Command, ...]:
    """The launch commands of a file, in its order.

    kind: ``shell``, ``makefile``, ``justfile`` or ``dockerfile``.
    Spans count bytes of ``text`` in UTF-8. Never raises for what ``text`` holds.
    """
    is_read = len(text) <= _LONGEST and STARTS.search(text)
    return tuple(_commands(READERS[kind](text))) if is_read else ()


def commands_in(source: Source) -> tuple[Command, ...]:
    """The launch commands of a file, or of a notebook's cells; spans count bytes of its text."""
    kind = kind_of(source.path)
    if kind is None:
        return ()
    if not source.is_notebook:
        return read_commands(source.text, kind)
    return tuple(_commands(read_cells(source))) if NOTEBOOK_STARTS.search(source.text) else ()


def _commands(commands: Iterable[tuple[Simple, Place]]) -> Iterator[Command]:
    return islice(_all_commands(commands), _MOST_COMMANDS)


def _all_commands(commands: Iterable[tuple[Simple, Place]]) -> Iterator[Command]:
    found = [(simple, place, launch_of(simple)) for simple, place in commands]
    readers = _Readers(found)
    for number, (simple, place, launch) in enumerate(found):
        if launch is None:
            continue
        target = None
        if launch.target is not None:
            target = _target(launch.kind, launch.target, place)

        def flag(one: Argument, number: int = number, place: Place = place) -> Flag:
            return _flag(one, place, readers, number)

        yield Command(
            program=launch.program,
            starts=launch.starts,
            target=target,
            launcher=tuple(map(flag, launch.launcher)),
            settings=tuple(map(flag, launch.settings)),
            positionals=tuple(word.text for word in launch.positionals),
            environment=tuple(_variable(*one, place) for one in launch.environment),
            folder=simple.folder,
            has_unknown_arguments=launch.has_unknown_arguments,
            span=readers.spans[number],
        )


class _Readers:
    """Which commands of a file get a word from the same bytes, by their numbers."""

    def __init__(self, found: Sequence[tuple[Simple, Place, Launch | None]]) -> None:
        self.spans = [
            place.span(simple.words[0].start, simple.words[-1].end) for simple, place, _ in found
        ]
        self._unknown = {number for number, (_, _, launch) in enumerate(found) if launch is None}
        self._at: dict[tuple[int, int], set[int]] = {}
        for number, (simple, place, _) in enumerate(found):
            for word in simple.words:
                for piece in word.pieces:
                    if piece.start >= 0:
                        self._at.setdefault((id(place), piece.start), set()).add(number)

    def knows(self, word: Word, place: Place) -> bool:
        """True if the word is one of a command's, and not a part of one."""
        return (id(place), word.pieces[0].start) in self._at

    def others(self, word: Word, place: Place, number: int) -> tuple[Span, ...] | None:
        """The places of the other commands that read a word; None where one starts none known."""
        found: set[int] = set()
        for piece in word.pieces:
            found |= self._at.get((id(place), piece.start), set())
        found.discard(number)
        return None if found & self._unknown else tuple(self.spans[each] for each in sorted(found))


def _target(kind: str, word: Word, place: Place) -> Target:
    tail = word.pieces[-1].text
    name = None if tail is None else posixpath.basename(tail)
    if word.text is None and "/" not in (tail or ""):
        name = None
    return Target(kind, word.text, name, place.span(*word.place))


def _flag(argument: Argument, place: Place, readers: _Readers, number: int) -> Flag:
    values = argument.values
    begin = argument.word.begin
    option_span = place.span(begin, begin + len(argument.option))
    option_readers = readers.others(argument.word, place, number)
    value_readers = option_readers
    value: str | tuple[str, ...] | bool | None
    span, plain = option_span, False
    if not values:
        value = True
    elif len(values) == 1:
        value = values[0].text
        span, plain = place.span(*values[0].place), _is_plain(values[0], place)
        if readers.knows(values[0], place):
            value_readers = readers.others(values[0], place, number)
    else:
        texts = [word.text for word in values]
        value = None if None in texts else tuple(text for text in texts if text is not None)
        span = place.span(values[0].start, values[-1].end)
    is_whole = place.text(begin, begin + len(argument.option)) == argument.option
    return Flag(
        argument.name,
        value,
        span,
        plain and value_readers is not None,
        argument.option,
        option_span,
        argument.form,
        is_plain_option=is_whole and option_readers is not None and not argument.word.is_shared,
        readers=value_readers or (),
        option_readers=option_readers or (),
    )


def _variable(name: str, word: Word, place: Place) -> Flag:
    span = place.span(*word.place)
    return Flag(name, word.text, span, _is_plain(word, place), name, span, "environment")


def _is_plain(word: Word, place: Place) -> bool:
    return word.is_plain and place.text(*word.place) == word.text


def _last(flags: tuple[Flag, ...], *names: str) -> Flag | None:
    return next((flag for flag in reversed(flags) if flag.name in names), None)


def _text(flag: Flag | None) -> str | None:
    return flag.value if flag is not None and isinstance(flag.value, str) else None
