"""What a rule reports: a place, a message, and perhaps a fix."""

from __future__ import annotations

from enum import StrEnum

from memlint.rule.savings import Saving
from memlint.source import Span
from memlint.source.edits import Edit
from memlint.source.record import Record


class Level(StrEnum):
    """How bad it is, worst first. By default the exit status counts errors and waste.

    A notice is what will matter later, as a deprecation; a hint is a trade that may be worth it.
    """

    ERROR = "error"
    WASTE = "waste"
    NOTICE = "notice"
    HINT = "hint"


class Applicability(StrEnum):
    """When a fix may be applied.

    safe: what the model learns does not change, up to floating-point noise.
    unsafe: training changes (data cut, precision, optimizer, batch); with ``--unsafe-fixes`` only.
    display: advice, never applied.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Fix(Record):
    """``message`` says in the imperative what the edits do; advice alone has no edits.

    effect: settings of the memory model that change with it, as ``(("checkpointing", "full"),)``;
    empty: what the rule says.
    """

    message: str
    edits: tuple[Edit, ...] = ()
    applicability: Applicability = Applicability.SAFE
    effect: tuple[tuple[str, object], ...] = ()

    def as_advice(self) -> Fix:
        """Return what it says without what it does."""
        return self._replace(edits=(), applicability=Applicability.DISPLAY)

    def as_unsafe(self) -> Fix:
        """Return it as one that changes training."""
        return self._replace(applicability=Applicability.UNSAFE)


class Finding(Record):
    """One fault at one place.

    level: overrides the rule's own (a rule may be only a hint in some situations).
    on_request: only those who select the rule by its code or name hear it. to_fit: it is worth its
    cost only where the run does not fit the GPU that the user names.

    A rule gives these six; the rest is added to what it finds.
    code, name: of the rule. saving: what the fix saves, where the memory model can say. effect:
    settings of the memory model that change once it is mended.
    """

    span: Span
    message: str
    fix: Fix | None = None
    level: Level | None = None
    code: str = ""
    name: str = ""
    saving: Saving | None = None
    on_request: bool = False
    to_fit: bool = False
    effect: tuple[tuple[str, object], ...] = ()

    def as_advice(self) -> Finding:
        """Return it with a fix that is said and not made."""
        return self._replace(fix=self.fix and self.fix.as_advice())
