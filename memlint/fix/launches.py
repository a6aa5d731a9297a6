"""Edits of launch commands: one plain word for another, spliced into the file's own bytes.

The new text is read again, and its commands must be the old ones but for the words that were
replaced, else it is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from memlint.fix.apply import Applied
from memlint.fix.draft import Splice
from memlint.fix.spans import FixError
from memlint.fix.splicing import TextEdit, spliced
from memlint.recipes.launch import Command, kind_of, read_commands
from memlint.rule.edits import Edit, ReplaceExpression
from memlint.source import Source, Span

_WRONG = "memlint's fix went wrong and was thrown away, please report this"


def apply_launch_edits(source: Source, fixes: Sequence[Sequence[Edit]]) -> Applied:
    """Carry out ``fixes`` on a file of commands, each as a whole or not at all."""
    taken: dict[Span, Splice] = {}
    accepted: list[int] = []
    postponed: list[int] = []
    refused: dict[int, str] = {}
    for number, edits in enumerate(fixes):
        try:
            wanted = _splices(source, edits)
        except FixError as error:
            refused[number] = str(error)
            continue
        if any(
            one.span.overlaps(other) and one != taken[other] for one in wanted for other in taken
        ):
            postponed.append(number)
            continue
        taken.update((one.span, one) for one in wanted)
        accepted.append(number)
    ordered = [taken[span] for span in sorted(taken)]
    text = spliced(source.data, ordered).decode("utf-8", "surrogatepass")
    changes = tuple(TextEdit(one.span, one.text) for one in ordered)
    return Applied(text, tuple(accepted), tuple(postponed), refused, changes)


def preview_launch(source: Source, fixes: Sequence[Sequence[Edit]]) -> tuple[Applied, ...]:
    """Each of ``fixes`` as if it were the only one."""
    return tuple(apply_launch_edits(source, [edits]) for edits in fixes)


def _splices(source: Source, edits: Sequence[Edit]) -> list[Splice]:
    """Raises FixError unless the new commands are the old ones with the words replaced."""
    splices: list[Splice] = []
    for edit in edits:
        if not isinstance(edit, ReplaceExpression):
            raise FixError("a command cannot be changed that way")
        splices.append(Splice(edit.span, edit.source))
    splices.sort(key=lambda one: one.span)
    text = spliced(source.data, splices).decode("utf-8", "surrogatepass")
    kind = kind_of(source.path)
    assert kind is not None
    before = [_words(one) for one in read_commands(source.text, kind)]
    after = [_words(one) for one in read_commands(text, kind)]
    if [len(one) for one in before] != [len(one) for one in after]:
        raise FixError(_WRONG)
    changed = sum(
        a != b
        for old, new in zip(before, after, strict=True)
        for a, b in zip(old, new, strict=True)
    )
    if not 0 < changed <= len(splices):
        raise FixError(_WRONG)
    return splices


def _clash(one: Splice, other: Splice) -> bool:
    return one != other and one.span.overlaps(other.span)


def _words(command: Command) -> list[object]:
    """What a command says, without places."""
    flags = (*command.launcher, *command.settings, *command.environment)
    return [
        (command.program, command.folder, command.positionals),
        command.target and command.target.text,
        *((flag.name, flag.value, flag.form) for flag in flags),
    ]
