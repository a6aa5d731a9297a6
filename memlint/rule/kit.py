"""What rules are written with: fixes that downgrade themselves, and reasons for silence.

A rule says what is wrong. Every rule has two more questions: can its edits be made, and is the
script one that it says nothing of (Unsloth, no GPU, images)? They are answered here once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

from memlint.rule.edits import Edit, InsertStatement
from memlint.rule.findings import Applicability, Fix
from memlint.script import Script, Setting, Trainer


def advise(message: str) -> Fix:
    """Advice: shown, never applied. ``message`` is in the imperative."""
    return Fix(message, (), Applicability.DISPLAY)


def fix(message: str, edits: tuple[Edit, ...] | None, *, unsafe: bool = False) -> Fix:
    """A fix, safe unless ``unsafe``; advice where ``edits`` is None or empty.

    Edits are None where a value cannot be changed where it lives: it is unknown, or others read it.
    """
    if not edits:
        return advise(message)
    return Fix(message, edits, Applicability.UNSAFE if unsafe else Applicability.SAFE)


def together(*parts: tuple[Edit, ...] | None) -> tuple[Edit, ...] | None:
    """All edits of ``parts``; None where one of them cannot be made."""
    edits: tuple[Edit, ...] = ()
    for part in parts:
        if part is None:
            return None
        edits += part
    return edits


def is_switched_off(setting: Setting) -> bool:
    """Whether the script writes ``False`` itself; a command line's default decides nothing."""
    return setting.given is True and setting.value is False and not setting.by_default


def unless_switched_off(setting: Setting, proposed: Fix) -> Fix:
    """``proposed``; advice where the script has written ``False`` for the option."""
    if not is_switched_off(setting):
        return proposed
    return proposed._replace(edits=(), applicability=Applicability.DISPLAY)


class Skip(NamedTuple):
    """Scripts that a rule says nothing of, as data: ``Rule(skips=(UNSLOTH, OFF_CUDA))``.

    words: completes "Silent where ..." on the rule's page.
    """

    words: str
    holds: Callable[[Script], bool]


UNSLOTH = Skip("the script uses Unsloth", lambda script: script.uses_unsloth)
OFF_CUDA = Skip("it trains off CUDA (CPU, TPU, Apple, Gaudi)", lambda script: script.off_cuda)
VISION = Skip("images go into the model", lambda script: script.uses_vision)
DIFFUSION = Skip("it trains a diffusion model", lambda script: script.uses_diffusion)

LEARNED_PROMPTS = Skip(
    "prompts are learned, for which PEFT drops the positions", lambda script: script.learns_prompts
)


def call_after_trainer(script: Script, trainer: Trainer, qualname: str, argument: str) -> Fix:
    """``qualname(argument)`` as a statement after the one that makes ``trainer``.

    argument: how the trainer's name becomes the argument, as ``{}.model``. Advice where the
    trainer has no name, or the runtime is not tested with the target.
    """
    statement = script.statement(trainer.node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is trainer.node:
            given = argument.format(name)
        case _:
            given = ""
    reference = script.reference(qualname, trainer.node)
    if not given or reference is None or script.api.behaviour("runtime") != "tested":
        return advise(f"Call `{qualname}({argument.format('trainer')})` before training")
    call = InsertStatement(script.span(statement), f"{reference.text}({given})", "after")
    short = qualname.rpartition(".")[2]
    return fix(f"Call `{short}({given})` after the trainer is made", (call, *reference.edits))
