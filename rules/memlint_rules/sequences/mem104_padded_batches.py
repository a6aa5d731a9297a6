"""Batches padded to their longest row, where the model could do without padding."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Rule,
    Script,
    Skip,
    Trainer,
    advise,
    call_after_trainer,
    facts,
    triggers,
)
from memlint_rules.sequences.loaders import padded_by_hand
from memlint_rules.sequences.padding import share_of_padding, sorted_rows

_CALL = "memlint_runtime.train_without_padding"
_LANGUAGE_MODELING = "transformers.DataCollatorForLanguageModeling"
_COLLATORS = (_LANGUAGE_MODELING, "transformers.DataCollatorForSeq2Seq")
_ROWS = "per_device_train_batch_size"
# What collators are called through.
_CALLS = ("torch_call", "numpy_call", "tf_call")
# They put chosen and rejected sequences into one batch.
_PAIRED = ("trl.DPOTrainer", "trl.RewardTrainer")


def check(script: Script) -> Iterator[Finding]:
    if script.sets_attention:
        return
    for trainer in script.training:
        known = trainer.subclass is None and trainer.config is not None
        if (
            not known
            or trainer.model.is_toy
            or trainer.may_sort_rows
            or trainer.setting("compute_metrics").given is not False
        ):
            continue
        if trainer.kind in _PAIRED:
            yield from _in_pairs(script, trainer)
        elif trainer.kind == "transformers.Trainer":
            yield from _in_collator(script, trainer)
    yield from padded_by_hand(script)


def _in_pairs(script: Script, trainer: Trainer) -> Iterator[Finding]:
    config = trainer.config
    given = trainer.setting("data_collator").given is not False
    if given or config is None or config.setting("padding_free").given is not False:
        return
    # Whether documents can be kept apart in the model: it is definitely a decoder.
    decoder = trainer.model.by_name or trainer.model.causal_lm is True
    if decoder if trainer.kind == "trl.DPOTrainer" else trainer.model.is_decoder:
        yield from _finding(script, trainer, trainer, _fix(script, trainer))


def _in_collator(script: Script, trainer: Trainer) -> Iterator[Finding]:
    call = trainer.collator
    if call is None or call.name not in _COLLATORS or trainer.model.causal_lm is not True:
        return
    if facts.trainer_overrides(script, call, "__call__", *_CALLS):
        # What it makes of the batch is its own.
        return
    made = _fix(script, trainer)
    if call.subclass is not None and made.edits:
        # What the class changes would be lost.
        made = advise(made.message)
    if call.name == _LANGUAGE_MODELING:
        if call.effective("mlm").value is not False:
            return
        if made.edits:
            # It takes every padding token out of the labels, end tokens used as such, too.
            made = made.as_unsafe()
    if not made.edits and trainer.config and script.api.behaviour("runtime") != "tested":
        # Libraries older than the runtime wants can sort rows, at least.
        less = sorted_rows(script, trainer.config)
        made = less if less is not None and less.edits else made
    yield from _finding(script, trainer, call, made)


def _finding(script: Script, trainer: Trainer, at: Call, made: Fix) -> Iterator[Finding]:
    rows, pairs = trainer.number(_ROWS), trainer.kind in _PAIRED
    count = 2 * (rows or 1) if pairs else rows or 1
    if count > 1 and script.lengths_may_differ(trainer):
        of = f"{count}" if rows is not None else "two or more"
        message = f"pads every row to the longest of {of}: {share_of_padding(count, pairs=pairs)}"
        yield Finding(script.span(at.node.func), message, made)


def _fix(script: Script, trainer: Trainer) -> Fix:
    made = call_after_trainer(script, trainer, _CALL, "{}")
    model, condition = trainer.model, ""
    # TRL's preference trainers switch dropout off by default.
    drops = trainer.kind not in _PAIRED and model.family.has("drops_attention")
    if drops:
        condition = ", with the attention dropout of the model's configuration at 0"
    elif not model.keeps_documents_apart:
        condition = ", if the model is one whose attention can keep documents apart"
    if not made.edits:
        return made
    if drops or _needs_rows(script, trainer):
        return advise(made.message + condition)  # the runtime refuses either
    if not condition and _may_drop_out(script, trainer):
        condition = ": dropout draws other random numbers then"
    if facts.reads_batches(script, trainer) or facts.may_see_outputs(script, trainer):
        condition = condition or ", if nothing else needs the batches' rows and padding"
    return made._replace(message=made.message + condition).as_unsafe() if condition else made


def _may_drop_out(script: Script, trainer: Trainer) -> bool:
    """True if dropout may be on, in the model or in its adapters."""
    config, model = trainer.config, trainer.model
    if config is not None and config.effective("disable_dropout").value is True:
        return False
    rates = [adapter.setting("lora_dropout") for adapter in script.calls_to("peft.LoraConfig")]
    is_zero = all(rate.given is False or rate.is_value(0, 0.0) for rate in rates)
    return model.family.has("drops_out") or not (is_zero if rates else trainer.peft is False)


def _needs_rows(script: Script, trainer: Trainer) -> bool:
    """True if something counts on a row for each example, which the runtime refuses."""
    config = trainer.config
    assert config is not None, "known trainers have a configuration"
    noise = config.setting("neftune_noise_alpha")
    return script.may_use("dispatch_batches") or (noise.given is True and not noise.is_none)


RULE = Rule(
    summary="batches padded to their longest row where the model could do without",
    check=check,
    triggers=(triggers.LOADERS, frozenset({"ollat", "padding=", "DPOTrainer", "RewardTrainer"})),
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA, Skip.LEARNED_PROMPTS),
    effect={"padding": "none"},
)
