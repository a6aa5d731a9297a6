"""What rules are written with: fixes that downgrade themselves, and reasons for silence.

A rule says what is wrong. Every rule has two more questions: can its edits be made, and is the
script one that it says nothing of (Unsloth, no GPU, images)? They are answered here once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum

from memlint.rule.findings import Applicability, Fix
from memlint.runs import Change
from memlint.runs.references import reference_to
from memlint.script import Script, Setting, Trainer
from memlint.script.packing import learns_prompts
from memlint.source.edits import Edit, InsertStatement


def advise(message: str, effect: Mapping[str, object] | None = None) -> Fix:
    """Advice: shown, never applied. ``message`` is in the imperative.

    effect: settings of the memory model that change with it (``{"checkpointing": "full"}``), where
    neither the rule's code nor the edits say so: they give the finding its price.
    """
    return Fix(message, (), Applicability.DISPLAY, tuple((effect or {}).items()))


def fix(
    message: str,
    edits: tuple[Edit, ...] | None,
    *,
    unsafe: bool = False,
    effect: Mapping[str, object] | None = None,
) -> Fix:
    """A fix, safe unless ``unsafe``; advice where ``edits`` is None or empty.

    Edits are None where a value cannot be changed where it lives: it is unknown, or others read it.
    effect: as for ``advise``.
    """
    if not edits:
        return advise(message, effect)
    applicability = Applicability.UNSAFE if unsafe else Applicability.SAFE
    return Fix(message, edits, applicability, tuple((effect or {}).items()))


def by_change(change: Change, *, unsafe: bool = False) -> Fix:
    """The fix that makes a change of a run, and has its price."""
    return fix(change.message, change.edits, unsafe=unsafe or change.unsafe, effect=change.settings)


def is_switched_off(setting: Setting) -> bool:
    """True if the script writes ``False`` itself; a command line's default decides nothing."""
    return setting.given is True and setting.value is False and not setting.is_overridable_default


def unless_switched_off(setting: Setting, proposed: Fix) -> Fix:
    """``proposed``; advice where the script has written ``False`` for the option."""
    if not is_switched_off(setting):
        return proposed
    return proposed.as_advice()


_TEST_PACKAGES = frozenset({"pytest", "unittest"})


class Skip(Enum):
    """Scripts that a rule says nothing of: ``Rule(skips=(Skip.UNSLOTH, Skip.OFF_CUDA))``.

    words: completes "Silent where ..." on the rule's page. packages: a script that imports one of
    them is one of these, so that nothing else of it need be read.
    """

    UNSLOTH = (
        "the script uses Unsloth",
        lambda script: script.uses_unsloth,
        frozenset({"unsloth", "unsloth_zoo"}),
    )
    OFF_CUDA = ("it trains off CUDA (CPU, TPU, Apple, Gaudi)", lambda script: script.off_cuda)
    VISION = ("images go into the model", lambda script: script.uses_vision)
    DIFFUSION = ("it trains a diffusion model", lambda script: script.uses_diffusion)
    TESTS = (
        "it is a test, whose models are small",
        lambda script: script.imports_package(*_TEST_PACKAGES),
        _TEST_PACKAGES,
    )
    DEEPSPEED = (
        "DeepSpeed is imported or configured",
        lambda script: (
            script.imports_package("deepspeed")
            or any(config.setting("deepspeed").given is not False for config in script.configs)
        ),
    )
    LEARNED_PROMPTS = (
        "prompts are learned, for which PEFT drops the positions",
        learns_prompts,
    )

    def __init__(
        self,
        words: str,
        holds: Callable[[Script], bool],
        packages: frozenset[str] = frozenset(),
    ) -> None:
        self.words = words
        self.holds = holds
        self.packages = packages


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
    reference = reference_to(script, qualname, trainer.node)
    if not given or reference is None or script.api.behaviour("runtime") != "tested":
        return advise(f"Call `{qualname}({argument.format('trainer')})` before training")
    call = InsertStatement(script.span(statement), f"{reference.text}({given})", "after")
    short = qualname.rpartition(".")[2]
    message = f"Call `{short}({given})` after the trainer is made"
    return fix_of_model(trainer, message, (call, *reference.edits))


def fix_of_model(trainer: Trainer, message: str, edits: tuple[Edit, ...] | None) -> Fix:
    """A fix that calls the runtime on a trainer's model: safe for classes of transformers, whose
    code it is tested with."""
    doubted = trainer.trains_own_code
    message += f", {IF_TAKEN}" if doubted else ""
    return fix(message, edits, unsafe=doubted)


IF_TAKEN = "if the runtime takes the model: its code may not be transformers' own"
