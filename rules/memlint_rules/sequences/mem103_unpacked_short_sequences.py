"""Supervised fine-tuning that pads every row of a batch to the longest.

Padding tokens take part in every layer: their activations cost as much memory and time as real
ones. Packing puts whole examples end to end and keeps them apart by their positions. It costs one
pass over the lengths. Source: Krell et al., arXiv:2107.02027.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    edits,
    fix,
    triggers,
    unless_switched_off,
)
from memlint_rules.sequences.padding import share_of_padding

_OPTIONS = ("packing", "padding_free")
_BATCH = "per_device_train_batch_size"


def check(script: Script) -> Iterator[Finding]:
    seen = set()
    for trainer in script.training:
        config = trainer.config
        if trainer.kind != "trl.SFTTrainer" or (config is None and trainer.args.given is not False):
            continue
        holder = trainer if config is None or trainer.setting("packing").given else config
        collated = trainer.setting("data_collator").given is not False
        if holder.node in seen or collated or trainer.skips_preparation is not False:
            continue
        off = all(_is_off(trainer, name) and _is_off(config, name) for name in _OPTIONS)
        if off and script.lengths_may_differ(trainer):
            seen.add(holder.node)
            yield _finding(script, holder, config)


def _is_off(call: Call | None, name: str) -> bool:
    """True if an option is definitely off; one that is neither given nor known is off."""
    if call is None:
        return True
    setting = call.effective(name)
    if setting.given is False and not call.has_option(name):
        return not call.has_unknown_keywords
    return setting.value is False


def _finding(script: Script, holder: Call, config: Config | None) -> Finding:
    packing = holder.setting("packing")
    rows = _rows(script, config)
    return Finding(
        script.span(packing.node if packing.given and packing.node else holder.node.func),
        _message(rows) + (f" ({packing.origin})" if packing.is_overridable_default else ""),
        _fix(script, holder),
        # At 1 nothing is padded, and an unknown batch may be 1.
        Level.HINT if rows is None or rows == 1 else None,
    )


def _rows(script: Script, config: Config | None) -> int | None:
    """Sequences in a micro-batch, None where that is not known."""
    if config is not None:
        value = config.effective(_BATCH).value
    else:
        # The default of the arguments that the trainer makes.
        kind = script.api.config_of("trl.SFTTrainer")
        known = kind and script.api.accepts(kind, _BATCH)
        value = script.api.default(kind, _BATCH) if kind and known else None
    return value if type(value) is int and value > 0 else None


def _message(rows: int | None) -> str:
    if rows == 1:
        return (
            "trains one unpacked sequence at a time: nothing is padded, but short sequences leave "
            "the GPU idle"
        )
    if rows is None:
        return "pads every sequence of a batch to the longest: neither packing nor padding-free"
    return f"pads every sequence to the longest of {rows}: {share_of_padding(rows)}"


def _fix(script: Script, holder: Call) -> Fix:
    if not holder.has_option("packing"):
        by_trainer = script.api.accepts("trl.SFTTrainer", "packing")
        where = "to `SFTTrainer`" if by_trainer else "in an `SFTConfig`"
        return advise(f"Set `packing=True` {where}")
    if holder.has_option("max_length") and holder.effective("max_length").is_none:
        return advise("Set `max_length`, then `packing=True`")
    changes = edits.set_option(script, holder, "packing", "True")
    made = fix("Set `packing=True`", changes, unsafe=True)
    return unless_switched_off(holder.setting("packing"), made)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    packed, rows = run.packed, run.micro_batch.number
    if packed.is_value(False) and rows is not None:
        yield Finding(
            packed.span,
            f"pads every sample to the longest of {rows}: nothing is packed"
            if rows > 1
            else "trains one unpacked sample at a time: short samples leave the GPU idle",
            by_change(run.set(packed=True)),
            None if rows > 1 else Level.HINT,
        )


RULE = Rule(
    code="MEM103",
    name="unpacked-short-sequences",
    level=Level.WASTE,
    summary="supervised fine-tuning with neither packing nor padding-free",
    check=check,
    of_run=of_run,
    triggers=(triggers.LIBRARIES, frozenset({"SFTTrainer"})),
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA, Skip.LEARNED_PROMPTS),
)
