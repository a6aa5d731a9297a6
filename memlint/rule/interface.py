"""What a rule is, and the names that ``memlint.rule`` offers to rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache

from memlint.api.refusals import Refusal
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
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.kit import (
    DEEPSPEED,
    DIFFUSION,
    IF_TAKEN,
    LEARNED_PROMPTS,
    OFF_CUDA,
    TESTS,
    UNSLOTH,
    VISION,
    Skip,
    advise,
    call_after_load,
    call_after_trainer,
    call_beside,
    fix,
    is_switched_off,
    method_of,
    together,
    unless_switched_off,
)
from memlint.rule.page import Example, Page, read_page
from memlint.rule.precision import (
    dtype_node,
    is_decided,
    load_by_name_in,
    load_in,
    may_lack_bf16,
    trains_without_bf16,
)
from memlint.rule.triggers import BACKWARD, COMPARED, LIBRARIES, PACKAGES, TRAINING
from memlint.runs.changes import add_option, set_item, set_option
from memlint.runs.references import Reference, reference_to, replace_callee, without_import
from memlint.script import (
    CHECKPOINTING_ARGUMENTS,
    CHECKPOINTING_METHODS,
    CHECKPOINTING_OPTIONS,
    MEASURES,
    MISSING,
    UNSURE,
    AttentionOwner,
    Call,
    Certainty,
    CheckpointingOwner,
    Config,
    Dataset,
    Effect,
    Evaluation,
    Event,
    EventKind,
    Fate,
    Flow,
    Forward,
    Function,
    Graph,
    Held,
    Hoard,
    How,
    Lengths,
    Loop,
    LoopModel,
    LossForm,
    LossOwner,
    ModelFacts,
    Object,
    Output,
    Owner,
    Positions,
    Preparation,
    Provenance,
    Purpose,
    Reach,
    Role,
    Script,
    Setting,
    Step,
    Sum,
    Symbol,
    Tensor,
    Tokenization,
    TokenLoss,
    TorchtuneModel,
    Trained,
    Trainer,
    Width,
)
from memlint.script.version_guards import is_guarded, names_looked_up
from memlint.source import Span
from memlint.source.edits import (
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
from memlint.source.record import Record

__all__ = [
    "BACKWARD",
    "CHECKPOINTING_ARGUMENTS",
    "CHECKPOINTING_METHODS",
    "CHECKPOINTING_OPTIONS",
    "COMPARED",
    "DEEPSPEED",
    "DIFFUSION",
    "IF_TAKEN",
    "LEARNED_PROMPTS",
    "LIBRARIES",
    "MEASURES",
    "MISSING",
    "OFF_CUDA",
    "PACKAGES",
    "TESTS",
    "TRAINING",
    "UNSLOTH",
    "UNSURE",
    "VISION",
    "AddDecorator",
    "AddImport",
    "AddParameter",
    "Advice",
    "Applicability",
    "AttentionOwner",
    "Build",
    "Call",
    "Certainty",
    "CheckpointingOwner",
    "Config",
    "Dataset",
    "Edit",
    "Effect",
    "Environment",
    "Evaluation",
    "Event",
    "EventKind",
    "Example",
    "Fate",
    "Finding",
    "Fix",
    "Flow",
    "Forward",
    "Function",
    "Graph",
    "Held",
    "History",
    "Hoard",
    "How",
    "Inline",
    "InsertStatement",
    "Lengths",
    "Level",
    "Loop",
    "LoopModel",
    "LossForm",
    "LossOwner",
    "ModelFacts",
    "Move",
    "Object",
    "Output",
    "Owner",
    "Page",
    "Positions",
    "Preparation",
    "Provenance",
    "Purpose",
    "Reach",
    "Reference",
    "Refusal",
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
    "Role",
    "Rule",
    "Runtime",
    "Script",
    "SetItem",
    "SetKeyword",
    "Setting",
    "Skip",
    "Span",
    "Step",
    "Successor",
    "Sum",
    "Symbol",
    "Tensor",
    "TokenLoss",
    "Tokenization",
    "TorchtuneModel",
    "Trained",
    "Trainer",
    "Width",
    "WrapStatements",
    "add_option",
    "advise",
    "call_after_load",
    "call_after_trainer",
    "call_beside",
    "dtype_node",
    "fix",
    "is_decided",
    "is_guarded",
    "is_switched_off",
    "load_by_name_in",
    "load_in",
    "may_lack_bf16",
    "method_of",
    "names_looked_up",
    "reference_to",
    "replace_callee",
    "set_item",
    "set_option",
    "together",
    "trains_without_bf16",
    "unless_switched_off",
    "without_import",
]


class Rule(Record):
    """One fault.

    code, name: ``MEM301``, ``unchecked-activations``; the name names the fault, not the cure.
    summary: one line for tables.
    triggers: the file must contain a word of each of these sets for the rule to be asked; a tuple
        of words is searched in its order.
    skips: scripts that the rule says nothing of, whatever is in them.
    written: what people read of it; by default the Markdown file beside the check's.
    on_request: whether it is asked only where its code or name is selected: a hint that would
        concern nearly every script.
    only_to_fit: unless selected, it is reported only where the run fits the GPU once all is
        fixed.
    """

    code: str
    name: str
    level: Level
    summary: str
    check: Callable[[Script], Iterable[Finding]]
    triggers: tuple[frozenset[str] | tuple[str, ...], ...]
    skips: tuple[Skip, ...] = ()
    written: Page | None = None
    on_request: bool = False
    only_to_fit: bool = False

    def may_speak(self, packages: frozenset[str]) -> bool:
        """True if it may say something of a script that imports these packages."""
        return all(packages.isdisjoint(skip.packages) for skip in self.skips)

    def findings(self, script: Script) -> Iterable[Finding]:
        """What the rule finds in ``script``; nothing in scripts that it skips."""
        if any(skip.holds(script) for skip in self.skips):
            return ()
        return self.check(script)

    @property
    def page(self) -> Page:
        """What people read of it. Raises ValueError where that is missing or malformed."""
        return self.written or _page_beside(self.check.__module__)

    @property
    def why(self) -> str:
        """What it costs and why."""
        return self.page.why

    @property
    def examples(self) -> tuple[Example, ...]:
        """Faulty scripts and what the fixes make of them."""
        return self.page.examples

    @property
    def fix_safety(self) -> str:
        """What the fix changes and when it is withheld."""
        return self.page.fix_safety

    @property
    def references(self) -> tuple[str, ...]:
        """Documentation or papers."""
        return self.page.references


@cache
def _page_beside(module: str) -> Page:
    path = sys.modules[module].__file__ or module
    return read_page(f"{os.path.splitext(path)[0]}.md")
