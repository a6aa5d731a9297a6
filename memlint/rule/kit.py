"""What rules are written with: fixes that downgrade themselves, and reasons for silence.

A rule says what is wrong. Every rule has two more questions: can its edits be made, and is the
script one that it says nothing of (Unsloth, no GPU, images)? They are answered here once.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from memlint.rule.findings import Applicability, Fix
from memlint.runs import Change, runtime_calls
from memlint.script.call_settings import Setting
from memlint.script.calls import Trainer
from memlint.script.model import Script
from memlint.script.owners import learns_prompts
from memlint.source.edits import Edit


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


def unless_switched_off(setting: Setting, proposed: Fix) -> Fix:
    """``proposed``; advice where the script has written ``False`` for the option."""
    return proposed.as_advice() if setting.is_switched_off else proposed


def _is_test(script: Script) -> bool:
    """True if a script imports what only tests need: trainers patch by ``unittest.mock``, too."""
    names = [full for _, _, full in script.imports if full.startswith("unittest")]
    others = [one for one in names if not one.startswith("unittest.mock")]
    return bool(others) or script.imports_package("pytest")


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
    TESTS = ("it is a test, whose models are small", _is_test, frozenset({"pytest"}))
    DEEPSPEED = (
        "DeepSpeed is imported or configured",
        lambda script: (
            script.imports_package("deepspeed")
            or any(config.setting("deepspeed").given is not False for config in script.configs)
        ),
    )
    LEARNED_PROMPTS = ("prompts are learned, for which PEFT drops the positions", learns_prompts)

    def __init__(
        self, words: str, holds: Callable[[Script], bool], packages: frozenset[str] = frozenset()
    ) -> None:
        self.words = words
        self.holds = holds
        self.packages = packages


def call_after_trainer(script: Script, trainer: Trainer, qualname: str, argument: str) -> Fix:
    """The fix that calls the runtime after a trainer is made: ``argument`` is ``{}.model``."""
    return by_change(runtime_calls.call_after_trainer(script, trainer, qualname, argument))


def fix_of_model(trainer: Trainer, message: str, edits: tuple[Edit, ...] | None) -> Fix:
    """A fix that calls the runtime on a trainer's model: safe for classes of transformers."""
    return by_change(runtime_calls.change_of_model(trainer, message, edits))


IF_TAKEN = runtime_calls.IF_TAKEN
