"""Batches padded to their longest row, where the model could do without padding.

Collators for causal language models and those of preference and reward trainers pad. Padding goes
through every layer: with exponentially distributed lengths a third of a batch of 2 is padding, half
of a batch of 4, 63 % of one of 8. Without it the documents of a batch lie end to end in one row,
with attention between their bounds. Losses are the same, token for token. Cost: batches of uneven
length, and evaluation without one row per example. Source: Krell et al., arXiv:2107.02027;
transformers' ``DataCollatorWithFlattening``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    Rule,
    Script,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._packing import call_after_trainer, learns_prompts, sets_attention_elsewhere
from memlint_rules._row_lengths import lengths_may_differ, share_of_padding
from memlint_rules._training import DECODERS, checkpoint

_CALL = "memlint_runtime.train_without_padding"
_LANGUAGE_MODELING = "transformers.DataCollatorForLanguageModeling"
_COLLATORS = (_LANGUAGE_MODELING, "transformers.DataCollatorForSeq2Seq")
# Families whose checkpoints drop attention weights (`attn_pdrop`, `attention_dropout` of 0.1), which
# variable-length attention cannot; TRL's preference trainers switch dropout off by default.
_WITH_ATTENTION_DROPOUT = r"gpt-?2|starcoder2"
# They put chosen and rejected sequences into one batch.
_PAIRED = ("trl.DPOTrainer", "trl.RewardTrainer")


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.uses_vision or script.off_cuda:
        return
    if sets_attention_elsewhere(script) or learns_prompts(script):
        return
    findings = [
        finding
        for trainer in script.training
        if trainer.subclass is None and trainer.config is not None and not trainer.model.is_toy
        for finding in _in_trainer(script, trainer)
    ]
    if findings and not _has_no_padding(script):
        yield from findings


def _has_no_padding(script: Script) -> bool:
    """Rows of one length: cut into blocks, or padded to a fixed length (MEM102's fault)."""
    names = [node.name for node in script.nodes(ast.FunctionDef)]
    if any("group" in name or "pack" in name or "chunk" in name for name in names):
        return True
    return any(
        node.arg == "padding"
        and isinstance(node.value, ast.Constant)
        and node.value.value == "max_length"
        for node in script.nodes(ast.keyword)
    )


def _in_trainer(script: Script, trainer: Trainer) -> Iterator[Finding]:
    config = trainer.config
    assert config is not None
    rows = config.effective("per_device_train_batch_size").value
    if type(rows) is not int or trainer.setting("compute_metrics").given is not False:
        return
    fix = _where_known(script, trainer, call_after_trainer(script, trainer, _CALL, "{}"))
    pairs = trainer.kind in _PAIRED
    if pairs:
        given = trainer.setting("data_collator").given is not False
        off = config.setting("padding_free").given is False
        if given or not off or not _is_decoder(script, trainer):
            return
        rows, place = 2 * rows, trainer.node.func
    elif trainer.kind == "transformers.Trainer":
        collator = trainer.setting("data_collator").value
        made = collator.made_by if isinstance(collator, Object) else None
        call = script.call_at(made.node) if made is not None else None
        if call is None or call.name not in _COLLATORS or trainer.model.causal_lm is not True:
            return
        if call.name == _LANGUAGE_MODELING:
            if call.effective("mlm").value is not False:
                return
            fix = _with_end_tokens(fix)
        place = call.node.func
    else:
        return
    if rows > 1 and lengths_may_differ(script, trainer):
        yield Finding(
            script.span(place),
            f"pads every row to the longest of {rows}: {share_of_padding(rows, pairs=pairs)}",
            fix,
        )


def _checkpoint(script: Script, trainer: Trainer) -> str:
    facts = trainer.model
    if facts.load is not None:
        return checkpoint(script, facts.load)
    return facts.name.lower() if facts.by_name and isinstance(facts.name, str) else ""


def _is_decoder(script: Script, trainer: Trainer) -> bool:
    """Whether documents can be kept apart in the model: it surely is a decoder."""
    if trainer.kind == "trl.DPOTrainer":
        return trainer.model.by_name or trainer.model.causal_lm is True
    return bool(re.search(DECODERS, _checkpoint(script, trainer)))


def _where_known(script: Script, trainer: Trainer, fix: Fix) -> Fix:
    """Advice alone for models of which nobody can tell that their attention takes documents.

    One that tells positions by a bias on the scores (BLOOM) does not.
    """
    name = _checkpoint(script, trainer)
    if not fix.edits:
        return fix
    if trainer.kind not in _PAIRED and re.search(_WITH_ATTENTION_DROPOUT, name):
        message = f"{fix.message}, with the attention dropout of the model's configuration at 0"
        return Fix(message, (), Applicability.DISPLAY)
    if re.search(rf"{DECODERS}|gemma", name):
        return fix
    message = f"{fix.message}, if the model is one whose attention can keep documents apart"
    return Fix(message, (), Applicability.DISPLAY)


def _with_end_tokens(fix: Fix) -> Fix:
    """That collator takes every padding token out of the labels, end tokens used as such, too."""
    return fix._replace(applicability=Applicability.UNSAFE) if fix.edits else fix


RULE = Rule(
    code="MEM104",
    name="padded-batches",
    level=Level.WASTE,
    summary="batches padded to their longest row where the model could do without",
    why=(
        "A padding collator fills every row of a batch up to the longest, and padding costs what "
        "tokens cost, in every layer. With many short and few long rows (exponentially distributed "
        "lengths) a third of a batch of 2 is padding, half of one of 4, 63 % of one of 8; "
        "preference trainers put two sequences for each row into a batch. Without padding the rows "
        "lie end to end in one, and attention keeps within their bounds. Seen for causal language "
        "models under `Trainer` and for TRL's DPO and reward trainers; silent where rows are cut "
        "into blocks or padded to a fixed length, where their making is out of sight, for images, under Unsloth, and with "
        "`compute_metrics`, which expects a row for each example."
    ),
    fix_safety=(
        "Safe where the data bring their labels, and for TRL's trainers: loss and gradients are "
        "equal up to rounding. Unsafe after `DataCollatorForLanguageModeling`, which takes padding "
        "tokens out of the labels wherever they stand: end tokens that serve as padding are "
        "learned afterwards. `train_without_padding` comes with `pip install "
        "'torch-memlint[runtime]'`; advice only for versions that it is not tested with, where the "
        "model is not one that is known to keep documents apart or drops attention weights (GPT-2), "
        "and where the trainer has no name."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"DataCollator", "DPOTrainer", "RewardTrainer"})),
    references=("https://arxiv.org/abs/2107.02027",),
    examples=(
        Example(
            title="labels of the data's own",
            bad="""\
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args, train_dataset=dataset, data_collator=collator)
trainer.train()
""",
            good="""\
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from memlint_runtime import train_without_padding

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args, train_dataset=dataset, data_collator=collator)
train_without_padding(trainer)
trainer.train()
""",
        ),
        Example(
            title="preference pairs",
            bad="""\
from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", per_device_train_batch_size=2)
trainer = DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
trainer.train()
""",
            good="""\
from trl import DPOConfig, DPOTrainer
from memlint_runtime import train_without_padding

args = DPOConfig("out", per_device_train_batch_size=2)
trainer = DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
train_without_padding(trainer)
trainer.train()
""",
        ),
    ),
)
