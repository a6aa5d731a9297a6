"""A TRL trainer that is given plain ``TrainingArguments``.

TRL turns them into its own configuration by passing every value on, the defaults too: an explicit
``gradient_checkpointing=False`` and ``bf16=False`` that nobody wrote cancel TRL's defaults, and
options like ``packing`` or ``max_length`` have no place to stand. Source: TRL,
``trl/trainer/sft_trainer.py`` (conversion of ``TrainingArguments``).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Config,
    Example,
    Finding,
    Fix,
    How,
    Level,
    ReplaceCallee,
    Rule,
    Script,
    SetKeyword,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES

_CHECKPOINTING = "activation checkpointing"
_PLAIN = frozenset({"transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"})
# Where the two classes' defaults differ, these keep what the script trained with. Checkpointing is
# left to TRL's default: it changes memory, not numbers.
_KEPT = ("learning_rate", "logging_steps", "bf16", "max_length")
# What TRL's configurations turn on, and the options that decide it, the first by its default.
_SAVINGS = {
    "bf16": ("bf16", "fp16"),
    _CHECKPOINTING: ("gradient_checkpointing", "activation_checkpointing"),
}


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth:
        # Its shim turns plain arguments into the trainer's own.
        return
    for trainer in script.training:
        config = trainer.config
        if config is None or config.kind not in _PLAIN or not trainer.kind.startswith("trl."):
            continue
        wanted = config_class(script, trainer)
        if wanted is None:
            continue
        why = _why(script, trainer, config, wanted)
        if why:
            yield Finding(
                script.span(config.node.func if not config.fed_by_parser else trainer.node.func),
                f"`{trainer.kind.rpartition('.')[2]}` gets plain `TrainingArguments`: {why}",
                _fix(script, trainer, config, wanted),
            )


def _why(script: Script, trainer: Trainer, config: Config, wanted: str) -> str:
    """What is wrong with plain arguments here; empty where every value was written."""
    name = wanted.rpartition(".")[2]
    cancelled = " and ".join(_cancelled(script, trainer, config, wanted, sure=True))
    if cancelled:
        return f"what nobody wrote ({cancelled} off) cancels the defaults of `{name}`"
    homeless = [
        setting.name
        for setting in trainer.settings()
        if setting.given is not False
        and script.api.accepts(trainer.kind, setting.name) is False
        and script.api.accepts(wanted, setting.name) is not False
    ]
    if homeless:
        return f"there is no place in them for `{homeless[0]}`, an option of `{name}`"
    cancelled = " and ".join(_cancelled(script, trainer, config, wanted, sure=False))
    if cancelled:
        return f"where nothing turns them on, {cancelled} are off, against the defaults of `{name}`"
    return ""


def _cancelled(
    script: Script, trainer: Trainer, config: Config, wanted: str, *, sure: bool
) -> Iterator[str]:
    """Savings that the trainer's own configuration has by default and that nobody decided on.

    sure: only those that nothing, as a command line, can decide on either.
    """
    signature = script.api.signature(wanted)
    assert signature is not None
    for what, names in _SAVINGS.items():
        settings = [config.setting(name) for name in names]
        by_default = signature.parameters.get(names[0])
        if by_default is None or by_default.default is False:
            continue
        if any(setting.given for setting in settings):
            continue
        if what == _CHECKPOINTING and trainer.checkpointed_by_call:
            # The configuration's option turns nothing off that a call turned on.
            continue
        if not sure or all(setting.given is False for setting in settings):
            yield what


def config_class(script: Script, trainer: Trainer) -> str | None:
    """The configuration class of a TRL trainer, if the target version has it."""
    wanted = trainer.kind.removesuffix("Trainer") + "Config"
    return wanted if script.api.signature(wanted) is not None else None


def _fix(script: Script, trainer: Trainer, config: Config, wanted: str) -> Fix | None:
    name = wanted.rpartition(".")[2]
    advice = Fix(f"Use `{name}` instead of `TrainingArguments`", (), Applicability.DISPLAY)
    if config.fed_by_parser or config.subclass is not None or config.open_ended:
        return advice
    if any(one.kind != trainer.kind for one in script.trainers_with(config)):
        return advice
    reference = script.reference(wanted, config.node)
    if reference is None:
        return advice
    kept = tuple(
        # What a dictionary brings in is known, and this is not among it.
        SetKeyword(config.span, option, source, beside_unpacking=True)
        for option, source in _values_to_keep(script, config, wanted)
    )
    return Fix(
        f"Use `{name}`, with what `TrainingArguments` meant by default written out",
        (ReplaceCallee(config.span, reference.text), *kept, *reference.edits),
    )


def _values_to_keep(script: Script, config: Config, wanted: str) -> Iterator[tuple[str, str]]:
    """Options that nobody wrote and that would change with the class, with their old value."""
    signature = script.api.signature(wanted)
    assert signature is not None
    positional = {
        setting.name
        for setting in map(config.setting, config.positions)
        if setting.how is How.POSITIONAL
    }
    for option in _KEPT:
        new = signature.parameters.get(option)
        setting = config.setting(option)
        if new is None or setting.given is not False or option in positional:
            continue
        old = config.effective(option)
        if not old.known or old.value == new.default:
            continue
        if option == "bf16" and config.setting("fp16").given is not False:
            # Mixed precision was chosen already: TRL's bf16 default gives way to fp16.
            continue
        yield option, repr(old.value)


RULE = Rule(
    code="MEM905",
    name="plain-arguments-for-trl-trainer",
    level=Level.ERROR,
    summary="a TRL trainer given plain TrainingArguments",
    why=(
        "A TRL trainer turns plain `TrainingArguments` into its own configuration by passing every "
        "value on, defaults included. `bf16=False` and `gradient_checkpointing=False`, which nobody "
        "wrote, then cancel TRL's defaults, and the options that save most (packing, length limits) "
        "cannot be set at all."
    ),
    fix_safety=(
        "Safe: values that the script set stay; defaults that differ and change training (learning "
        "rate, precision) are written out as they were. Activation checkpointing is left to TRL's "
        "default, on: it changes memory, not numbers."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"TrainingArguments"})),
    references=("https://huggingface.co/docs/trl/sft_trainer",),
    examples=(
        Example(
            title="SFT",
            bad="""\
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=1,
    learning_rate=2e-4,
    bf16=True,
)
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
""",
            good="""\
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out",
    per_device_train_batch_size=1,
    learning_rate=2e-4,
    bf16=True,
    logging_steps=500,
)
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="defaults that differ",
            bad="""\
import trl
from transformers import TrainingArguments

trainer = trl.DPOTrainer(model, args=TrainingArguments("out"), train_dataset=dataset)
""",
            good="""\
import trl
from transformers import TrainingArguments

trainer = trl.DPOTrainer(model, args=trl.DPOConfig("out", learning_rate=5e-05, logging_steps=500, bf16=False), train_dataset=dataset)
""",
        ),
        Example(
            title="options in a dictionary",
            bad="""\
from transformers import TrainingArguments
from trl import SFTTrainer

options = {"output_dir": "out", "bf16": True}
trainer = SFTTrainer(model, args=TrainingArguments(**options), train_dataset=dataset)
""",
            good="""\
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

options = {"output_dir": "out", "bf16": True}
trainer = SFTTrainer(model, args=SFTConfig(learning_rate=5e-05, logging_steps=500, **options), train_dataset=dataset)
""",
        ),
    ),
    clean=(
        # Everything that would be cancelled is written, and no option is without a place.
        """\
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out", fp16=True, gradient_checkpointing=False)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        """\
from unsloth import FastLanguageModel
from transformers import TrainingArguments
from trl import SFTTrainer

trainer = SFTTrainer(model, args=TrainingArguments("out"), train_dataset=dataset)
""",
        """\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
""",
        # A class of the same name from another library.
        """\
from setfit import Trainer, TrainingArguments

trainer = Trainer(model, args=TrainingArguments("out"), train_dataset=dataset)
""",
        """\
from transformers import Trainer, TrainingArguments

trainer = Trainer(model, args=TrainingArguments("out"), train_dataset=dataset)
""",
    ),
)
