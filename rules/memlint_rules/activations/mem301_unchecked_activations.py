"""Training that keeps every layer's activations until the backward pass.

Without activation checkpointing a decoder layer keeps some 34 times hidden size bytes per token in
bf16 (attention and MLP inputs, projections, norms); with it, only the layer's input: 2 times hidden
size. The price is one more forward pass, about a third more compute. Source: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198; transformers,
"GPU" (gradient checkpointing).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Trainer,
    unless_switched_off,
)
from memlint_rules._checkpointing import ARGUMENTS, is_reentrant_by_default
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import trains_language_model

# The option and its new name: where both exist the new one wins.
_OPTIONS = ("activation_checkpointing", "gradient_checkpointing")
_NON_REENTRANT = '{"use_reentrant": False}'


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda:
        return
    for config in script.configs:
        trainers = script.training_with(config)
        if not trainers or not all(map(trains_language_model, trainers)):
            continue
        if any(one.checkpointed_by_call is not False for one in trainers) or not _surely_off(
            config
        ):
            continue
        if not (_waits_for_its_class(script, config, trainers) and not _is_written(config)):
            yield _finding(script, config, trainers)


def _waits_for_its_class(script: Script, config: Config, trainers: tuple[Trainer, ...]) -> bool:
    """Plain arguments for a TRL trainer: MEM905 gives them the class whose default is on."""
    if config.kind.startswith("trl."):
        return False
    for trainer in trainers:
        signature = script.api.signature(trainer.kind.removesuffix("Trainer") + "Config")
        parameters = signature.parameters if signature is not None else {}
        if trainer.kind.startswith("trl.") and any(
            name in parameters and parameters[name].default is True for name in _OPTIONS
        ):
            return True
    return False


def _is_written(config: Config) -> bool:
    return any(config.setting(name).given for name in _OPTIONS)


def _surely_off(config: Config) -> bool:
    given = [config.setting(name) for name in _OPTIONS]
    if any(setting.given is None for setting in given):
        return False
    if any(setting.given for setting in given):
        return all(setting.value is False for setting in given if setting.given)
    # Where both names exist each is None by default, which means off.
    defaults = [config.effective(name) for name in _OPTIONS if config.has_option(name)]
    return bool(defaults) and all(one.value is False or one.is_none for one in defaults)


def _finding(script: Script, config: Config, trainers: tuple[Trainer, ...]) -> Finding:
    setting = next(
        (one for one in map(config.setting, _OPTIONS) if one.given),
        config.setting(next(filter(config.has_option, reversed(_OPTIONS)), _OPTIONS[1])),
    )
    if setting.given:
        written = f"`{setting.name}=False` keeps"
        if setting.by_default:
            written = f"`{setting.name}` is off by its {setting.origin}, which keeps"
        message = f"{written} the activations of all layers until backward"
        span = script.span(setting.node) if setting.node is not None else config.span
    else:
        message = (
            f"`{config.kind.rpartition('.')[2]}` leaves activation checkpointing off: the "
            "activations of all layers are kept until backward"
        )
        span = script.span(config.node.func)
    if any(trainer.model.kbit for trainer in trainers):
        message += "; the k-bit preparation does not turn it on here"
    name = setting.name
    newest = next(filter(config.has_option, _OPTIONS), name)
    if not setting.given:
        name = newest
    edits = script.set_option(config, name, "True")
    message_of_fix = f"Set `{name}=True`"
    if edits and any(_starves_adapters(script, config, one) for one in trainers):
        arguments = next(filter(config.has_option, ARGUMENTS), ARGUMENTS[-1])
        kind = script.set_option(config, arguments, _NON_REENTRANT)
        edits = (*edits, *kind) if kind else None
        message_of_fix += f" and `{arguments}={_NON_REENTRANT}`: no gradient passes a frozen input"
    fix = unless_switched_off(setting, Fix(message_of_fix, edits)) if edits else None
    return Finding(span, message, fix)


def _starves_adapters(script: Script, config: Config, trainer: Trainer) -> bool:
    """Whether checkpointing would be reentrant, which needs an input with gradients, over a base
    that may be frozen."""
    if any(config.setting(name).given is not False for name in ARGUMENTS):
        return False
    return trainer.peft is not False and is_reentrant_by_default(script, trainer)


RULE = Rule(
    code="MEM301",
    name="unchecked-activations",
    level=Level.WASTE,
    summary="no activation checkpointing",
    why=(
        "Without activation checkpointing every layer's intermediate results stay on the GPU from "
        "the forward pass to the backward pass: some 34 bytes per token and hidden unit and layer "
        "in bf16, against 2 with checkpointing. It costs about a third more compute and changes no "
        "number. TRL's configurations have it on since 0.22; plain `TrainingArguments` do not."
    ),
    fix_safety=(
        "Safe: recomputed activations are the same activations. Where the version checkpoints "
        "reentrantly, which a frozen base starves of gradients, the other kind is selected. "
        "Advice only where the script writes `False`, which is a decision. Withheld where the "
        "script turns checkpointing on by another way, uses Unsloth, or sets the option from "
        "outside."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"TrainingArguments", "Config"})),
    references=(
        "https://arxiv.org/abs/2205.05198",
        "https://huggingface.co/docs/transformers/perf_train_gpu_one",
    ),
    examples=(
        Example(
            title="plain TrainingArguments",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(output_dir="out", bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
trainer.train()
""",
            good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(output_dir="out", bf16=True, activation_checkpointing=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
trainer.train()
""",
        ),
        Example(
            title="turned off",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out",
    gradient_checkpointing=False,
    packing=True,
)
SFTTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
