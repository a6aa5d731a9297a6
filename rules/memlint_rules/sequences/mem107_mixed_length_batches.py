"""Padded batches of an encoder-decoder that mix short and long rows."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, Skip, Trainer, triggers
from memlint_rules.sequences.padding import share_of_padding, sorted_rows

# Rows below are short together; a batch below has little to sort.
_LONG, _ROWS = 1024, 8


def check(script: Script) -> Iterator[Finding]:
    if not _cuts_long_rows(script):
        return
    for trainer in script.training:
        config = trainer.config
        if config is None or not _pads_pairs(trainer) or trainer.model.is_toy:
            continue
        setting = config.setting("per_device_train_batch_size")
        rows = setting.value
        if type(rows) is not int or rows < _ROWS or setting.is_overridable_default:
            continue
        made = sorted_rows(script, config)
        if made is not None:
            message = f"each batch of {rows} mixes short and long rows: {share_of_padding(rows)}"
            yield Finding(script.span(config.node.func), message, made)


def _cuts_long_rows(script: Script) -> bool:
    """True if tokenization definitely pads to the longest row of a batch, of long rows."""
    fixed, lengths = False, []
    for call in script.calls:
        padding = call.setting("padding")
        fixed |= padding.given is not False and padding.value not in (False, True, "longest")
        lengths += [call.setting(name).value for name in ("max_length", "max_source_length")]
    return not fixed and any(type(length) is int and length >= _LONG for length in lengths)


def _pads_pairs(trainer: Trainer) -> bool:
    """True if it pads the batches of what is definitely an encoder-decoder."""
    load, collator = trainer.model.load, trainer.collator
    if load is None or "Seq2SeqLM" not in load.name or trainer.subclass is not None:
        return False
    return collator is not None and collator.name.endswith("ForSeq2Seq")


RULE = Rule(
    level=Level.HINT,
    summary="padded batches of an encoder-decoder that mix short and long rows",
    check=check,
    triggers=(triggers.LIBRARIES, frozenset({"DataCollatorForSeq2Seq"})),
    skips=(Skip.OFF_CUDA, Skip.VISION),
    effect={"padding": "none"},
)
