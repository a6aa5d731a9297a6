"""Edits of launch commands: a flag's value where it is a plain word, its name, the flag itself.

Quotes, continued lines and all other words stay. The file is read again: its commands must be the
old ones but for what the edits say, else the new text is thrown away.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from memlint.fix.draft import Splice
from memlint.fix.outcome import Applied, FixError, TextEdit
from memlint.fix.splicing import first_of_each_place, planned, spliced
from memlint.recipes.commands import document_of, kind_of_command
from memlint.recipes.document import MappingNode
from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command, Flag, kind_of, read_commands
from memlint.source import Source, Span
from memlint.source.edits import Edit, RemoveItem, RenameItem, ReplaceExpression, SetItem

_WORD = re.compile(r"[\w./:+-]+")
_BEFORE = re.compile(rb"(?<![ \t])(?<!\\\n)(?<!\\\r\n)(?:[ \t]|\\\r?\n)++\Z")
_BETWEEN = re.compile(rb"""[ \t\r\n\\='"]*""")
_ADVICE = "the value is no plain word of the command"
_QUOTED = "the option is written in quotes"


def apply_command_edits(source: Source, fixes: Sequence[Sequence[Edit]]) -> Applied:
    """Carry out ``fixes`` on a file of launch commands, each as a whole or not at all."""
    commands = read_commands(source.text, kind_of(source.path) or "shell")
    wanted, refused = planned(fixes, lambda edit: [splice_of(source, commands, edit)])
    taken, accepted = first_of_each_place(wanted)
    taken.sort(key=lambda one: one.span)
    text = spliced(source.data, taken).decode("utf-8", "surrogatepass")
    after = read_commands(text, kind_of(source.path) or "shell")
    started, left = (
        [(one.program, one.target and one.target.text) for one in every]
        for every in (commands, after)
    )
    if started != left:
        reason = "memlint's fix went wrong and was thrown away, please report this"
        return Applied(source.text, refused=dict.fromkeys(range(len(fixes)), reason))
    changes = tuple(TextEdit(one.span, one.text) for one in taken)
    return Applied(text, tuple(accepted), refused, changes)


def impossible_command_edits(source: Source, fixes: Sequence[Sequence[Edit]]) -> set[int]:
    """Return the numbers of the fixes that cannot be made where they stand."""
    commands = read_commands(source.text, kind_of(source.path) or "shell")
    return set(planned(fixes, lambda edit: [splice_of(source, commands, edit)])[1])


def splice_of(source: Source, commands: Sequence[Command], edit: Edit) -> Splice:
    match edit:
        case ReplaceExpression(span=span, source=text):
            return Splice(span, text)
        case SetItem(mapping=span, key=key, source=text):
            return _changed(*_flag(commands, span, key), text)
        case RemoveItem(mapping=span, key=key):
            return _removed(source, _flag(commands, span, key)[0])
        case RenameItem(mapping=span, old=old, new=new):
            return _renamed(source, _flag(commands, span, old)[0], new)
    raise FixError("a command cannot be changed that way")


def _changed(flag: Flag, kind: Kind, text: str) -> Splice:
    if kind is Kind.TRL and text == "None":
        raise FixError("no word of a command stands for None")
    if not flag.is_plain_word or not isinstance(flag.value, str):
        raise FixError(_ADVICE)
    return Splice(flag.span, _word(text, flag.value))


def _removed(source: Source, flag: Flag) -> Splice:
    """Without the option, its value and the space before it."""
    alone = flag.value is True
    if alone and not flag.is_plain_option:
        raise FixError(_QUOTED)
    if flag.span.start < flag.option_span.start or not (alone or flag.is_plain_word):
        raise FixError(_ADVICE)
    if not _BETWEEN.fullmatch(source.data[flag.option_span.end : flag.span.start]):
        raise FixError(_ADVICE)
    before = _BEFORE.search(source.data[: flag.option_span.start])
    if before is None:
        raise FixError(_QUOTED)
    end = max(flag.span.end, flag.option_span.end)
    quote = source.data[end : end + 1]
    if quote in (b"'", b'"'):
        # The value's own quotes go with it.
        if source.data[flag.span.start - 1 : flag.span.start] != quote:
            raise FixError(_QUOTED)
        end += 1
    return Splice(Span(before.start(), end), "")


def _renamed(source: Source, flag: Flag, new: str) -> Splice:
    """Return the option under its new name, with the dashes of the old one."""
    if not flag.is_plain_option:
        raise FixError(_QUOTED)
    written = source.slice(flag.option_span)
    name = re.search(r"(?<![\w-])[\w-]+=?\Z", written)
    if name is None:
        raise FixError(_ADVICE)
    equals = "=" if written.endswith("=") else ""
    dashed = "-" in name[0].strip("-") and "_" not in name[0]
    lead = "-" * (len(name[0]) - len(name[0].lstrip("-")))
    text = lead + (new.replace("_", "-") if dashed else new) + equals
    return Splice(flag.option_span, written[: name.start()] + text)


def _flag(commands: Sequence[Command], span: Span, key: str) -> tuple[Flag, Kind]:
    """Return the flag that an edit names, and the kind of its command.

    Raises FixError where the command does not give it.
    """
    for command in commands:
        kind = kind_of_command(command) or Kind.TRL  # scripts take options as TRL does
        for mapping in _mappings(document_of(command, kind).root):
            entry = mapping.entry(key) if mapping.span == span else None
            if entry is not None:
                for flag in command.settings:
                    if flag.option_span == entry.key.span:
                        return flag, kind
    raise FixError("the command does not give the option")


def _mappings(root: MappingNode) -> Iterator[MappingNode]:
    yield root
    yield from (value for _, value in root.entries if isinstance(value, MappingNode))


def _word(source: str, old: str) -> str:
    """Return a Python literal as a word of the shell; raises FixError where it is none."""
    dotted = re.fullmatch(r"torch\.(\w+)", source.strip())
    try:
        value = dotted[1] if dotted else ast.literal_eval(source)
    except (ValueError, SyntaxError):
        raise FixError(_ADVICE) from None
    text = "null" if value is None else str(value)
    if isinstance(value, bool) and old in ("true", "false"):
        text = text.lower()
    if not _WORD.fullmatch(text):
        raise FixError(_ADVICE)
    return text
