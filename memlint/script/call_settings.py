"""One setting of one call: its value, whether it is given at all, and where it lives."""

import ast

from memlint.engine.constants import MISSING, UNSURE, python_value, unified
from memlint.engine.nodes import Expression, Node
from memlint.engine.project import is_elsewhere
from memlint.engine.values import (
    ABSENT,
    Absent,
    Binding,
    Constant,
    How,
    Object,
    Provenance,
    Sequence,
    Symbol,
    Value,
    options,
)
from memlint.source.record import NamedTuple

_DECIDED = frozenset(
    {Provenance.LITERAL, Provenance.LIBRARY, Provenance.COMMAND_LINE, Provenance.SETTLED}
)


class Setting(NamedTuple):
    """A setting as it reaches its call.

    given: True on every path, False on none, None where only some paths give it or nobody can tell.
    value: a Python value; a ``Symbol`` (``torch.bfloat16``); an ``Object`` made by a call; MISSING
        where it is not given (and no default is known); UNSURE.
    origin: by which route the value came. how, owner: in what form it stands, and where.
    node: the expression that holds the value, None where there is none or more than one.
    raw: the abstract value itself.
    """

    name: str
    given: bool | None
    value: object
    origin: Provenance = Provenance.LITERAL
    how: How = How.OTHER
    owner: Node | None = None
    node: Expression | None = None
    raw: Value = ABSENT

    @property
    def known(self) -> bool:
        return self.value is not UNSURE and self.value is not MISSING

    @property
    def is_none(self) -> bool:
        return self.value is None

    def is_value(self, *values: object) -> bool:
        """True if the value is certainly one of ``values`` (``True`` and ``1`` differ)."""
        return any(type(self.value) is type(one) and self.value == one for one in values)

    @property
    def symbol(self) -> str | None:
        """The qualified name, where the value is one."""
        return self.value.name if isinstance(self.value, Symbol) else None

    @property
    def from_launch(self) -> bool:
        """True if a launch command gives it, whose settings are all known."""
        return self.origin is Provenance.COMMAND_LINE

    @property
    def is_settled(self) -> bool:
        """True if it is a default that no launch command of the project overrides."""
        return self.origin is Provenance.SETTLED

    @property
    def is_overridable_default(self) -> bool:
        """True if it is the default of a command line, a parameter or a dataclass field."""
        return self.origin not in _DECIDED

    @property
    def is_switched_off(self) -> bool:
        """True if the script writes ``False`` itself; a command line's default decides nothing."""
        return self.given is True and self.value is False and not self.is_overridable_default


def setting_of(name: str, binding: Binding | None, *, has_unknown_keywords: bool) -> Setting:
    """The setting that a binding gives; ``has_unknown_keywords``: or another place."""
    if binding is None or binding.value is ABSENT:
        if has_unknown_keywords:
            return Setting(name, None, UNSURE)
        return Setting(name, False, MISSING)
    owner = None if is_elsewhere(binding.owner) else binding.owner
    if any(isinstance(one, Absent) for one in options(binding.value)):
        # Some path gives it: ``kwargs["packing"] = True`` under a condition.
        return Setting(name, None, UNSURE, how=binding.how, owner=owner, raw=binding.value)
    value = python_value(binding.value)
    origin = Provenance.LITERAL
    node: Expression | None = None
    if isinstance(binding.value, Constant | Symbol):
        origin, node = binding.value.origin, binding.value.node
    elif isinstance(binding.value, Sequence):
        node = binding.value.node
    elif isinstance(binding.value, Object):
        node = binding.value.node if isinstance(binding.value.node, ast.expr) else None
    if is_elsewhere(node):
        node = None
    return Setting(name, True, value, origin, binding.how, owner, node, binding.value)


__all__ = ["MISSING", "UNSURE", "Setting", "python_value", "setting_of", "unified"]
