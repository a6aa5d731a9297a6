"""Batches or rows whose sizes are no multiples of 8."""

from collections.abc import Iterator

from memlint.rule import Config, Finding, Level, Rule, Script, Skip, edits, fix, triggers
from memlint_rules.sequences.padding import PADDING_COLLATORS

_OPTION = "pad_to_multiple_of"
_BATCH = "per_device_train_batch_size"
_COLLATORS = (*PADDING_COLLATORS, "transformers.DataCollatorForLanguageModeling")

_GROUPS = ("GRPOTrainer", "RLOOTrainer", "OnlineDPOTrainer", "PPOTrainer")


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        rows, trainers = _odd_rows(config), script.training_with(config)
        # The rows of a group go together.
        if rows is not None and trainers and not any(one.is_kind(*_GROUPS) for one in trainers):
            node = config.setting(_BATCH).node
            # The multiple of 8 below, or the power of 2 where there is none.
            nearest = rows - rows % 8 if rows > 8 else 1 << rows.bit_length() - 1
            yield Finding(
                script.span(node if node is not None else config.node.func),
                f"batches of {rows} rows: the matrices have sizes that fill no whole tiles of the "
                "tensor cores",
                fix(
                    f"Set `{_BATCH}={nearest}`",
                    edits.set_option(script, config, _BATCH, str(nearest)),
                    unsafe=True,
                    effect={"micro_batch": nearest},
                ),
            )
    for trainer in script.training:
        collator = trainer.collator
        if collator is None or collator.name not in _COLLATORS:
            continue
        if collator.setting(_OPTION).given is False and collator.has_option(_OPTION):
            yield Finding(
                script.span(collator.node.func),
                "rows are padded to any length: multiples of 8 fill the tiles of the tensor cores",
                fix(
                    f"Let it pad to multiples of 8: `{_OPTION}=8`",
                    edits.add_option(collator, _OPTION, "8"),
                    unsafe=True,
                ),
            )


def _odd_rows(config: Config) -> int | None:
    """The batch size that the script writes, where no power of 2 and no multiple of 8."""
    setting = config.setting(_BATCH)
    rows = setting.value
    if type(rows) is not int or rows < 3 or setting.is_overridable_default:
        return None
    return rows if rows % 8 and rows & (rows - 1) else None


RULE = Rule(
    level=Level.HINT,
    summary="batches or padding that are no multiples of 8",
    check=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({_BATCH, "DataCollator"})),
    on_request=True,
)
