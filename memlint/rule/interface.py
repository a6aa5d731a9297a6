"""What a rule is, and the names that ``memlint.rule`` offers to rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memlint.api.signatures import History
from memlint.api.successors import (
    Advice,
    Build,
    Environment,
    Inline,
    Move,
    Remove,
    Rename,
    Replace,
    Runtime,
    Successor,
)
from memlint.rule.edits import (
    AddDecorator,
    AddImport,
    AddParameter,
    Edit,
    InsertStatement,
    RemoveArgument,
    RemoveImport,
    RemoveItem,
    RemoveKeyword,
    RemoveStatement,
    RenameAttribute,
    RenameImport,
    RenameItem,
    RenameKeyword,
    ReplaceCallee,
    ReplaceExpression,
    SetItem,
    SetKeyword,
    WrapStatements,
)
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.kit import (
    DIFFUSION,
    OFF_CUDA,
    UNSLOTH,
    VISION,
    Skip,
    advise,
    fix,
    together,
)
from memlint.rule.triggers import LIBRARIES, PACKAGES
from memlint.script import (
    MISSING,
    UNSURE,
    Call,
    Config,
    Function,
    How,
    Loop,
    ModelFacts,
    Object,
    Origin,
    Reference,
    Script,
    Setting,
    Symbol,
    Trainer,
)
from memlint.source import Span
from memlint.source.record import Plain

__all__ = [
    "DIFFUSION",
    "LIBRARIES",
    "MISSING",
    "OFF_CUDA",
    "PACKAGES",
    "UNSLOTH",
    "UNSURE",
    "VISION",
    "AddDecorator",
    "AddImport",
    "AddParameter",
    "Advice",
    "Applicability",
    "Build",
    "Call",
    "Config",
    "Edit",
    "Environment",
    "Example",
    "Finding",
    "Fix",
    "Function",
    "History",
    "How",
    "Inline",
    "InsertStatement",
    "Level",
    "Loop",
    "ModelFacts",
    "Move",
    "Object",
    "Origin",
    "Reference",
    "Remove",
    "RemoveArgument",
    "RemoveImport",
    "RemoveItem",
    "RemoveKeyword",
    "RemoveStatement",
    "Rename",
    "RenameAttribute",
    "RenameImport",
    "RenameItem",
    "RenameKeyword",
    "Replace",
    "ReplaceCallee",
    "ReplaceExpression",
    "Rule",
    "Runtime",
    "Script",
    "SetItem",
    "SetKeyword",
    "Setting",
    "Skip",
    "Span",
    "Successor",
    "Symbol",
    "Trainer",
    "WrapStatements",
    "advise",
    "fix",
    "together",
]


class Example(Plain):
    """A faulty script and what ``memlint fix`` makes of it: a test and a documentation section.

    bad: a script in which the rule finds exactly ``findings`` faults.
    good: the script after the rule's fixes, unsafe ones included; None where it has none to apply.
    target: versions other than the newest, as ``--target`` takes them.
    """

    bad: str
    good: str | None = None
    findings: int = 1
    target: str = ""
    title: str = ""


class Rule(Plain):
    """One fault.

    code, name: ``MEM301``, ``unchecked-activations``; the name names the fault, not the cure.
    summary: one line for tables.
    why: what it costs and why, in a paragraph or two.
    fix_safety: what the fix changes and when it is withheld.
    triggers: the file must contain a word of each of these sets for the rule to be asked; a tuple
        of words is searched in its order.
    clean: scripts in which the rule stays silent (its traps), tested too.
    references: documentation or papers.
    skips: scripts that the rule says nothing of, whatever is in them.
    """

    code: str
    name: str
    level: Level
    summary: str
    why: str
    check: Callable[[Script], Iterable[Finding]]
    triggers: tuple[frozenset[str] | tuple[str, ...], ...]
    examples: tuple[Example, ...]
    clean: tuple[str, ...] = ()
    fix_safety: str = ""
    references: tuple[str, ...] = ()
    skips: tuple[Skip, ...] = ()

    def findings(self, script: Script) -> Iterable[Finding]:
        """What the rule finds in ``script``; nothing in scripts that it skips."""
        if any(skip.holds(script) for skip in self.skips):
            return ()
        return self.check(script)
