"""The rule interface: all that a rule may import, besides the standard library.

A rule is a pure function from a script to findings, with the words that explain it. It lives in
one file of ``memlint_rules`` as ``RULE``; its examples are its tests and its documentation page.

The names are imported with the first one that is used: what only needs a finding or an edit does
not pay for the script model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from memlint.rule.interface import Example, Rule
    from memlint.rule.kit import (
        DIFFUSION,
        LEARNED_PROMPTS,
        OFF_CUDA,
        UNSLOTH,
        VISION,
        Skip,
        advise,
        call_after_trainer,
        fix,
        is_switched_off,
        together,
        unless_switched_off,
    )
    from memlint.rule.padding import (
        PADDING_COLLATORS,
        leave_padding_to_collator,
        makes_own_mask,
        padding_advice,
        share_of_padding,
    )
    from memlint.rule.triggers import LIBRARIES, PACKAGES
    from memlint.script import (
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
        Event,
        EventKind,
        Flow,
        Forward,
        Function,
        Held,
        How,
        Kept,
        Lengths,
        Loop,
        LossOwner,
        ModelFacts,
        Object,
        Origin,
        Output,
        Owner,
        Positions,
        Preparation,
        Purpose,
        Reference,
        Role,
        Script,
        Setting,
        Step,
        Symbol,
        Tensor,
        Tokenization,
        Trainer,
        Width,
    )
    from memlint.script.version_guards import is_guarded, names_looked_up
    from memlint.source import Span

__all__ = [
    "DIFFUSION",
    "LEARNED_PROMPTS",
    "LIBRARIES",
    "MEASURES",
    "MISSING",
    "OFF_CUDA",
    "PACKAGES",
    "PADDING_COLLATORS",
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
    "Event",
    "EventKind",
    "Example",
    "Finding",
    "Fix",
    "Flow",
    "Forward",
    "Function",
    "Held",
    "History",
    "How",
    "Inline",
    "InsertStatement",
    "Kept",
    "Lengths",
    "Level",
    "Loop",
    "LossOwner",
    "ModelFacts",
    "Move",
    "Object",
    "Origin",
    "Output",
    "Owner",
    "Positions",
    "Preparation",
    "Purpose",
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
    "Symbol",
    "Tensor",
    "Tokenization",
    "Trainer",
    "Width",
    "WrapStatements",
    "advise",
    "call_after_trainer",
    "fix",
    "is_guarded",
    "is_switched_off",
    "leave_padding_to_collator",
    "makes_own_mask",
    "names_looked_up",
    "padding_advice",
    "share_of_padding",
    "together",
    "unless_switched_off",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from memlint.rule import interface

    names = globals()
    for each in __all__:
        names[each] = getattr(interface, each)
    return names[name]
