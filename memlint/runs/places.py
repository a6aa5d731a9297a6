"""Where a script writes an option, and the edits that change it there.

An option of a call may stand in the call itself, in a dictionary that is unpacked into it, or in an
assignment after it (``args.packing = True``). Each place reads, changes, renames and removes it in
a way of its own.
"""

import ast
from typing import Self

from memlint.engine.values import How
from memlint.script.call_settings import Setting
from memlint.script.model import Script
from memlint.source.edits import (
    Edit,
    RemoveItem,
    RemoveKeyword,
    RemoveStatement,
    RenameAttribute,
    RenameItem,
    RenameKeyword,
    ReplaceExpression,
    SetItem,
    SetKeyword,
)
from memlint.source.record import Record

Edits = tuple[Edit, ...]


class _Named(Record):
    """The option ``name``, somewhere in ``script``.

    Each place has ``value``, the expression that is written there, if one is, and makes edits:
    ``changed`` writes a source there, in the place of the value if there is one; ``renamed`` gives
    the option another name, ``removed`` takes it away. None where such edits would be a guess, or
    something else would go with it.
    """

    script: Script
    name: str

    def beside(self, name: str) -> Self | None:
        """The place of another option next to it; None where there is room for one only."""
        return self._replace(name=name)


class InCall(_Named):
    """A keyword of a call: ``SFTConfig(packing=True)``."""

    owner: ast.Call

    @property
    def value(self) -> ast.expr | None:
        return next(
            (keyword.value for keyword in self.owner.keywords if keyword.arg == self.name), None
        )

    def changed(self, source: str) -> Edits:
        return (SetKeyword(self.script.span(self.owner), self.name, source),)

    def renamed(self, new: str) -> Edits | None:
        return (RenameKeyword(self.script.span(self.owner), self.name, new),)

    def removed(self) -> Edits | None:
        return (RemoveKeyword(self.script.span(self.owner), self.name),)


class InDict(_Named):
    """An item of a dictionary: ``{"packing": True}``."""

    owner: ast.Dict

    @property
    def key(self) -> ast.Constant | None:
        """The key as it is written."""
        for key in self.owner.keys:
            if isinstance(key, ast.Constant) and key.value == self.name:
                return key
        return None

    @property
    def value(self) -> ast.expr | None:
        key = self.key
        return self.owner.values[self.owner.keys.index(key)] if key is not None else None

    def changed(self, source: str) -> Edits:
        return (SetItem(self.script.span(self.owner), self.name, source),)

    def renamed(self, new: str) -> Edits | None:
        return (RenameItem(self.script.span(self.owner), self.name, new),)

    def removed(self) -> Edits | None:
        return (RemoveItem(self.script.span(self.owner), self.name),)


class InAssignment(_Named):
    """A statement of its own: ``args.packing = True``, ``options["packing"] = True``."""

    owner: ast.Assign

    @property
    def value(self) -> ast.expr | None:
        return self.owner.value

    def changed(self, source: str) -> Edits:
        return (ReplaceExpression(self.script.span(self.owner.value), source),)

    def renamed(self, new: str) -> Edits | None:
        for target in self.owner.targets:
            match target:
                case ast.Attribute(attr=self.name):
                    return (RenameAttribute(self.script.span(target), new),)
                case ast.Subscript(slice=ast.Constant(value=self.name) as key):
                    written = self.script.text(key).replace(self.name, new)
                    return (ReplaceExpression(self.script.span(key), written),)
        return None

    def removed(self) -> Edits | None:
        alone = len(self.owner.targets) == 1
        return (RemoveStatement(self.script.span(self.owner)),) if alone else None

    def beside(self, name: str) -> None:
        return None


Place = InCall | InDict | InAssignment


def place_of(script: Script, setting: Setting) -> Place | None:
    """Where a setting is written; None where that is no place of these, or of another file."""
    match setting.how, setting.owner:
        case How.KEYWORD, ast.Call() as call:
            return InCall(script, setting.name, call)
        case How.ITEM, ast.Dict() as mapping:
            return InDict(script, setting.name, mapping)
        case How.SUBSCRIPT | How.ATTRIBUTE, ast.Assign() as statement:
            return InAssignment(script, setting.name, statement)
    return None


def place_in(script: Script, name: str, owner: ast.AST | None) -> Place | None:
    """The place called ``name`` in a call, a dictionary or an assignment."""
    match owner:
        case ast.Call():
            return InCall(script, name, owner)
        case ast.Dict():
            return InDict(script, name, owner)
        case ast.Assign():
            return InAssignment(script, name, owner)
    return None
