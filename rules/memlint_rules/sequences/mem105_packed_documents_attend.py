"""Documents packed into one row that attend to each other."""

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    Span,
    Trainer,
    advise,
    edits,
    facts,
    fix,
    triggers,
)
from memlint_rules.sequences.padding import PADDING_COLLATORS

_COLLATORS = (*PADDING_COLLATORS, "transformers.DataCollatorForLanguageModeling")
_ATTENTION = "attn_implementation"


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.training:
        if trainer.kind != "trl.SFTTrainer":
            continue
        if trainer.has_option("packing") and trainer.setting("packing").value is True:
            yield _by_design(script, None, script.span(trainer.node.func))
        elif trainer.config is not None and trainer.config.packing is not None:
            yield from _in_sft(script, trainer, trainer.config)
    if script.api.behaviour("packed-positions") == "all":
        yield from _in_loops(script)
    yield from _in_blocks(script)


def _in_sft(script: Script, trainer: Trainer, config: Config) -> Iterator[Finding]:
    option = "padding_free" if config.packing == "padding_free" else "packing"
    place = script.span(config.setting(option).node or config.node.func)
    given = trainer.setting("data_collator")
    collator = trainer.collator.name if trainer.collator is not None else given.symbol
    used = script.attention_of(trainer.model, config)
    if config.packing == "wrapped":
        yield _by_design(script, config, place)
    elif collator in (*_COLLATORS, "transformers.default_data_collator"):
        yield Finding(
            script.span(given.node or trainer.node.func),
            "this collator drops where packed documents begin: they attend to each other",
            advise("Leave `data_collator` to the trainer"),
        )
    elif script.api.behaviour("packed-positions") != "flash" or script.sets_attention:
        return
    elif used in ("default", "sdpa", "eager"):
        yield Finding(
            place,
            "documents in a row attend to each other: in this version of transformers only flash "
            "attention reads their positions, and this model uses "
            + ("the default" if used == "default" else used),
            advise('Load the model with `attn_implementation="flash_attention_2"`'),
        )


def _by_design(script: Script, config: Config | None, place: Span) -> Finding:
    made = advise("Pack whole documents (TRL 0.19 on)")
    if config is not None and config.has_option("packing_strategy"):
        changes = edits.set_option(script, config, "packing_strategy", '"bfd"')
        made = fix('Set `packing_strategy="bfd"`', changes, unsafe=True)
    message = "`wrapped` packing cuts documents anywhere and lets those in a row attend to each "
    return Finding(place, message + "other", made, Level.HINT)


def _in_loops(script: Script) -> Iterator[Finding]:
    """Flattened batches in a loop whose forward passes build a cache, which rules masks out."""
    flattens = script.calls_to("transformers.DataCollatorWithFlattening")
    if not flattens or script.sets_attention:
        return
    for forward in script.forwards:
        flash = any(load.setting(_ATTENTION).given is not False for load in forward.facts.loads)
        if forward.in_training_step and forward.builds_cache and not flash:
            edit = edits.SetKeyword(forward.span, "use_cache", "False", beside_unpacking=True)
            message = (
                "flattened documents attend to each other: with a key-value cache no mask is made "
                "of their positions"
            )
            yield Finding(forward.span, message, fix("Pass `use_cache=False`", (edit,)))


def _in_blocks(script: Script) -> Iterator[Finding]:
    """run_clm's ``group_texts``: everything end to end, cut into blocks."""
    for function in facts.block_functions_of(script) if script.trains_causal_lm else ():
        start = script.span(function).start
        yield Finding(
            Span(start, start + len(f"def {function.name}")),
            "equal blocks cut documents anywhere and let those in a block attend to each other",
            advise("Pack whole documents: `memlint_runtime.pack_dataset`"),
            Level.HINT,
        )


RULE = Rule(
    level=Level.ERROR,
    summary="packed or flattened documents attend to each other",
    check=check,
    triggers=(
        triggers.LIBRARIES,
        frozenset({"packing", "padding_free", "Flattening", "sum(", "chain"}),
    ),
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
)
