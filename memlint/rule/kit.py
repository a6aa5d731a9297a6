"""What rules are written with: fixes that downgrade themselves, and reasons for silence.

A rule says what is wrong. Every rule has two more questions: can its edits be made, and is the
script one that it says nothing of (Unsloth, no GPU, images)? They are answered here once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Literal

from memlint.rule.findings import Applicability, Fix
from memlint.runs import Change
from memlint.runs.references import reference_to
from memlint.script import Call, Script, Setting, Trainer
from memlint.source.edits import Edit, InsertStatement
from memlint.source.record import NamedTuple


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
    return proposed._replace(edits=(), applicability=Applicability.DISPLAY)


def method_of(script: Script, node: ast.expr, method: str) -> str:
    """``expression.method()``, in parentheses where it must be."""
    text = script.text(node)
    closed = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text}.{method}()" if closed else f"({text}).{method}()"


class Skip(NamedTuple):
    """Scripts that a rule says nothing of, as data: ``Rule(skips=(UNSLOTH, OFF_CUDA))``.

    words: completes "Silent where ..." on the rule's page. packages: a script that imports one of
    them is one of these, so that nothing else of it need be read.
    """

    words: str
    holds: Callable[[Script], bool]
    packages: frozenset[str] = frozenset()


_UNSLOTH = frozenset({"unsloth", "unsloth_zoo"})
_TESTS = frozenset({"pytest", "unittest"})
UNSLOTH = Skip("the script uses Unsloth", lambda script: script.uses_unsloth, _UNSLOTH)
OFF_CUDA = Skip("it trains off CUDA (CPU, TPU, Apple, Gaudi)", lambda script: script.off_cuda)
VISION = Skip("images go into the model", lambda script: script.uses_vision)
DIFFUSION = Skip("it trains a diffusion model", lambda script: script.uses_diffusion)
TESTS = Skip(
    "it is a test, whose models are small",
    lambda script: script.imports_package(*_TESTS),
    _TESTS,
)
DEEPSPEED = Skip(
    "DeepSpeed is imported or configured",
    lambda script: (
        script.imports_package("deepspeed")
        or any(config.setting("deepspeed").given is not False for config in script.configs)
    ),
)


def call_beside(
    script: Script,
    function: str,
    arguments: str,
    statement: ast.stmt,
    where: Literal["before", "after"] = "before",
) -> tuple[Edit, ...] | None:
    """Edits that call ``function``, by its qualified name, before or after a statement.

    None where its name is taken there.
    """
    reference = reference_to(script, function, statement)
    if reference is None:
        return None
    call = f"{reference.text}({arguments})"
    return (InsertStatement(script.span(statement), call, where), *reference.edits)


def call_after_load(script: Script, function: str, load: Call) -> tuple[Edit, ...] | None:
    """Edits that call ``function(model)`` after ``model = ...``; None where ``load`` gives the
    model no such name."""
    match script.statement(load.node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            if value is load.node:
                return call_beside(script, function, name, statement, "after")
    return None


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
