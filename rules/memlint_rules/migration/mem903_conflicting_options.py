"""Combinations of options that the library refuses at run time.

Each line of the table is a refusal read in the library's source: it raises, often after the model
has been loaded and the data tokenized.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memlint.rule import (
    UNSURE,
    Applicability,
    Call,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    RemoveKeyword,
    Rule,
    Script,
    Setting,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES

_ANY = object()  # any value but None


class Conflict(NamedTuple):
    """Options of ``owner`` that cannot be together. ``drop``: the one that goes, if one surely."""

    owner: str
    options: tuple[tuple[str, object], ...]
    message: str
    drop: str = ""


_ARGS = "transformers.TrainingArguments"
CONFLICTS = (
    Conflict(_ARGS, (("fp16", True), ("bf16", True)), "fp16 and bf16 exclude each other", "fp16"),
    Conflict(
        _ARGS,
        (("dataloader_prefetch_factor", _ANY), ("dataloader_num_workers", 0)),
        "a prefetch factor needs loader workers",
        "dataloader_prefetch_factor",
    ),
    Conflict(
        "trl.SFTConfig",
        (("packing", True), ("max_length", None)),
        "packing needs a length to pack to",
    ),
    Conflict(
        "trl.SFTConfig",
        (("padding_free", True), ("packing", True), ("packing_strategy", "wrapped")),
        "wrapped packing cuts documents and cannot be padding-free",
    ),
    *(
        Conflict(
            owner,
            (("generation_batch_size", _ANY), ("steps_per_generation", _ANY)),
            "generation_batch_size and steps_per_generation say the same thing twice",
        )
        for owner in ("trl.GRPOConfig", "trl.RLOOConfig")
    ),
    *(
        Conflict(
            owner,
            (("sync_ref_model", True), ("beta", 0.0)),
            "with beta=0 there is no reference model to synchronize",
            "sync_ref_model",
        )
        for owner in ("trl.GRPOConfig",)
    ),
    *(
        Conflict(
            owner,
            (("auto_find_batch_size", True),),
            "auto_find_batch_size is refused: the batch fixes the groups",
            "auto_find_batch_size",
        )
        for owner in ("trl.GRPOConfig", "trl.RLOOConfig")
    ),
    *(
        Conflict(
            owner,
            (("sync_ref_model", True), ("precompute_ref_log_probs", True)),
            "a reference that changes cannot be computed beforehand",
        )
        for owner in ("trl.DPOConfig", "trl.KTOConfig")
    ),
)


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        if _is_provoked(config):
            continue
        for conflict in CONFLICTS:
            if script.api.is_a(config.kind, conflict.owner) and _holds(config, conflict):
                yield _finding(script, config, conflict)
        yield from _few_generations(script, config)
    for trainer in script.trainers:
        if not _is_provoked(trainer):
            yield from _trainer(script, trainer)


def _is_provoked(call: Call) -> bool:
    """Whether a test wants the refusal: ``with pytest.raises(ValueError):``."""
    return any(
        name.rpartition(".")[2] in ("raises", "assertRaises", "assertRaisesRegex")
        for name in call.contexts
    )


def _holds(config: Config, conflict: Conflict) -> bool:
    """Whether all of it is certain, and at least one of it was written."""
    written = False
    for name, value in conflict.options:
        setting = config.effective(name)
        if not config.has_option(name) or not setting.known or setting.given is None:
            return False
        if value is _ANY:
            if setting.value is None or setting.given is False:
                return False
        elif not _is(setting, value):
            return False
        written |= bool(setting.given)
    return written


def _is(setting: Setting, value: object) -> bool:
    if isinstance(value, float):
        return setting.value == value and not isinstance(setting.value, bool)
    return setting.is_value(value)


def _finding(script: Script, config: Config, conflict: Conflict) -> Finding:
    given = [config.setting(name) for name, _ in conflict.options]
    node = next((one.node for one in reversed(given) if one.given and one.node is not None), None)
    fix = None
    drop = config.setting(conflict.drop) if conflict.drop else None
    if drop is not None and drop.given and config.keyword_node(drop.name) is not None:
        fix = Fix(
            f"Remove `{drop.name}`",
            (RemoveKeyword(config.span, drop.name),),
            Applicability.UNSAFE,
        )
    return Finding(
        script.span(node if node is not None else config.node.func),
        f"`{config.kind.rpartition('.')[2]}` refuses this at run time: {conflict.message}",
        fix,
    )


def _few_generations(script: Script, config: Config) -> Iterator[Finding]:
    if config.kind != "trl.GRPOConfig":
        return
    setting = config.setting("num_generations")
    if setting.given and isinstance(setting.value, int) and setting.value < 2:
        yield Finding(
            script.span(setting.node if setting.node is not None else config.node.func),
            "`GRPOConfig` refuses this at run time: an advantage needs at least two generations",
        )


def _trainer(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """``ref_model is model``, and an adapter configuration for a model that has adapters."""
    if not trainer.kind.startswith("trl."):
        return
    name = trainer.kind.rpartition(".")[2]
    model, reference = trainer.setting("model"), trainer.setting("ref_model")
    if isinstance(model.value, Object) and model.value is reference.value:
        keyword = trainer.keyword_node("ref_model")
        yield Finding(
            script.span(keyword if keyword is not None else trainer.node.func),
            f"`{name}` refuses this at run time: `ref_model` is the model itself",
            Fix(
                "Leave `ref_model` out",
                (RemoveKeyword(trainer.span, "ref_model"),),
                Applicability.UNSAFE,
            )
            if keyword is not None
            else None,
        )
    adapter = trainer.setting("peft_config")
    wrapped = trainer.model.peft is True
    if wrapped and adapter.given and adapter.value is not None and adapter.value is not UNSURE:
        if script.api.behaviour("peft-model-and-config") != "refused":
            return
        keyword = trainer.keyword_node("peft_config")
        yield Finding(
            script.span(keyword if keyword is not None else trainer.node.func),
            f"`{name}` refuses this at run time: a `PeftModel` and a `peft_config`",
            Fix(
                "Remove `peft_config`: the model has its adapter",
                (RemoveKeyword(trainer.span, "peft_config"),),
            )
            if keyword is not None
            else None,
        )


RULE = Rule(
    code="MEM903",
    name="conflicting-options",
    level=Level.ERROR,
    summary="a combination of options that the library refuses",
    why=(
        "The library raises an error, often only after the model has been loaded and the data "
        "prepared. Reported where every part of the combination is certain."
    ),
    fix_safety="Safe or unsafe where one of the options surely has to go; advice elsewhere.",
    check=check,
    triggers=(LIBRARIES, frozenset({"TrainingArguments", "Config", "Trainer"})),
    references=("https://huggingface.co/docs/trl",),
    examples=(
        Example(
            title="two precisions",
            bad="""\
from transformers import TrainingArguments

args = TrainingArguments("out", fp16=True, bf16=True)
""",
            good="""\
from transformers import TrainingArguments

args = TrainingArguments("out", bf16=True)
""",
        ),
        Example(
            title="an adapter twice",
            bad="""\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

lora = LoraConfig()
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), lora)
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset, peft_config=lora)
""",
            good="""\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

lora = LoraConfig()
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), lora)
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
""",
        ),
        Example(
            title="packing to no length",
            bad="""\
from trl import SFTConfig

args = SFTConfig("out", packing=True, max_length=None)
""",
        ),
    ),
    clean=(
        # A test that wants the refusal.
        """\
import pytest
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
with pytest.raises(ValueError):
    DPOTrainer(model, ref_model=model, args=DPOConfig("out"))
""",
        """\
import torch
from transformers import TrainingArguments

bf16 = torch.cuda.is_bf16_supported()
args = TrainingArguments("out", fp16=not bf16, bf16=bf16)
""",
        """\
from transformers import TrainingArguments

args = TrainingArguments("out", dataloader_prefetch_factor=2, dataloader_num_workers=4)
""",
    ),
)
