"""Padding taken out of a ready-made trainer, in one line before `train()`.

    train_without_padding(trainer)

What: selects variable-length attention on the trainer's models and makes its batches padding-free,
in the way that its class allows: plain `Trainer` gets `PaddingFreeCollator`, TRL's SFT trainer its
own collator's padding-free mode, trainers that insist on padded batches (DPO, KTO, rewards and
others) have the padding taken out between the embedding and the head.
Why: losses stay what they were, labels that a collator hides included; the layers stop paying for
padding.
Cost: see `attention` and `unpadding`. Evaluation goes the same way; `predict()` keeps its padding,
since its results are by example.

Tested with transformers 5.17 and 5.23 and trl 1.16. Nothing is overridden or patched: attributes
that this reads are checked, and their absence is an error that names the version at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithFlattening,
    DataCollatorWithPadding,
    Trainer,
    default_data_collator,
)

from memlint_runtime.attention import use_variable_length_attention
from memlint_runtime.collation import PaddingFreeCollator
from memlint_runtime.integrations.patching import Patch, changes_of, owner_of
from memlint_runtime.trainer_adapters import require_trainer

__all__ = ["train_without_padding"]

# Columns of packed and of masked datasets, which the model's signature does not name.
_COLLATED_COLUMNS = ("labels", "seq_lengths", "completion_mask", "assistant_masks")

# By what they are called through: a subclass with a call of its own does something else.
_KNOWN_CALLS = {
    (DataCollatorForLanguageModeling.__call__, DataCollatorForLanguageModeling.torch_call),
    (DataCollatorForSeq2Seq.__call__, None),
    (DataCollatorWithFlattening.__call__, None),
    (DataCollatorWithPadding.__call__, None),
    (PaddingFreeCollator.__call__, None),
}


def train_without_padding(trainer: Trainer) -> Patch:
    """Make a constructed trainer train, and evaluate, without padding.

    Returns a handle with `undo()`, by which the trainer (`result`) can be called as well.

    ValueError when its model cannot keep documents apart, when its own collator is not known, when
    its data was cut behind the packing's back, or when something counts on rows: `compute_metrics`,
    NEFTune's noise, accelerate's `dispatch_batches`. Streams are read by every process instead.
    """
    trainer = owner_of(trainer)
    otherwise = "PaddingFreeCollator and use_variable_length_attention"
    require_trainer(trainer, "train_without_padding", otherwise)
    collator = _collator(trainer)
    patch = Patch(trainer, "the trainer trains without padding", trainer)
    try:
        if not any(cls.__module__.startswith("trl.") for cls in type(trainer).__mro__):
            _flatten_in_trainer(trainer, patch)
        elif hasattr(collator, "padding_free"):
            _flatten_in_sft(trainer, patch)
        else:
            _unpad_in_the_trunk(trainer, patch)
    except BaseException:
        patch.undo()
        raise
    return patch


def _attend_by_documents(patch: Patch, model: Any, **options: Any) -> None:
    """Select variable-length attention until the patch is undone."""
    before = changes_of(model)
    use_variable_length_attention(model, **options)
    for change in changes_of(model):
        if change not in before:
            patch.on_undo(change.undo)


def _collator(trainer: Any) -> Any:
    if not hasattr(trainer, "data_collator"):
        raise ValueError(
            f"{type(trainer).__name__} has no data_collator in transformers "
            f"{version('transformers')}; train_without_padding is tested with 5.17 to 5.23."
        )
    return trainer.data_collator


def _flatten_in_sft(trainer: Any, patch: Patch) -> None:
    """TRL's SFT trainer: its collator flattens by itself when told to."""
    _require_whole_rows(trainer.train_dataset)
    _require_no_noise_by_row(trainer)
    if not hasattr(trainer, "padding_free"):
        raise ValueError(
            f"{type(trainer).__name__} has no padding_free in trl {version('trl')}; "
            f"train_without_padding is tested with 1.16."
        )
    for owner in (trainer.data_collator, trainer):
        _predict_with(trainer, patch, owner, {"padding_free": owner.padding_free})
        patch.replace(owner, "padding_free", True)
    _read_streams_everywhere(trainer, patch)
    _attend_by_documents(patch, trainer.model)


def _require_no_noise_by_row(trainer: Any) -> None:
    if getattr(trainer.args, "neftune_noise_alpha", None):
        raise ValueError(
            "neftune_noise_alpha is set: the noise gets weaker as rows get longer, and a batch "
            "without padding is one long row, so that training would change. Train with padding, "
            "or without the noise."
        )


def _read_streams_everywhere(trainer: Any, patch: Patch) -> None:
    """Of an iterable dataset accelerate has one process read the batches and cut them by rows,
    which a batch of one row does not survive; without that, every process reads the stream."""
    config = trainer.accelerator.dataloader_config
    if config.dispatch_batches:
        raise ValueError(
            "dispatch_batches=True cuts batches by rows, and a batch without padding is one row. "
            'Set accelerator_config={"dispatch_batches": False} in the training arguments.'
        )
    patch.replace(config, "dispatch_batches", False)


def _predict_with(trainer: Any, patch: Patch, owner: Any, values: Mapping[str, Any]) -> None:
    """Let `predict()` see these attributes of `owner`, and all else what they are by then."""
    predict = trainer.predict

    def predict_by_row(*args: Any, **kwargs: Any) -> Any:
        present = {name: getattr(owner, name) for name in values}
        vars(owner).update(values)
        try:
            return predict(*args, **kwargs)
        finally:
            vars(owner).update(present)

    patch.replace(trainer, "predict", predict_by_row)


def _require_whole_rows(dataset: Any) -> None:
    """TRL cuts `input_ids` at `max_length`, 1,024 by default, but not `seq_lengths`."""
    if "seq_lengths" not in (getattr(dataset, "column_names", None) or ()):
        return
    for row in dataset.select(range(min(100, len(dataset)))):
        if sum(row["seq_lengths"]) != len(row["input_ids"]):
            raise ValueError(
                f"a packed row has {len(row['input_ids'])} tokens, its documents "
                f"{sum(row['seq_lengths'])}: the trainer has cut it. Set max_length=None in the "
                f"SFTConfig; packing has bounded the rows already."
            )


def _unpad_in_the_trunk(trainer: Any, patch: Patch) -> None:
    _attend_by_documents(patch, trainer.model, remove_padding=True)
    reference = getattr(trainer, "ref_model", None)
    if reference is not None and reference is not trainer.model:
        _attend_by_documents(patch, reference, remove_padding=True)


def _flatten_in_trainer(trainer: Any, patch: Patch) -> None:
    collator = trainer.data_collator
    kind = type(collator)
    known = (kind.__call__, getattr(kind, "torch_call", None)) in _KNOWN_CALLS
    if not known and collator is not default_data_collator:
        raise ValueError(
            f"the collator {type(collator).__name__} is not known, so what it does would be lost. "
            f"Pass data_collator=PaddingFreeCollator() to the trainer if that replaces it."
        )
    if getattr(collator, "mlm", False):
        raise ValueError(
            "the collator masks tokens for a bidirectional model (mlm=True), whose documents "
            "cannot be kept apart here."
        )
    if trainer.compute_metrics is not None:
        raise ValueError(
            "compute_metrics expects one row per example; padding-free batches have one row in "
            "all. Evaluate with a trainer of its own, or call it without compute_metrics."
        )
    _require_no_noise_by_row(trainer)
    trainer._set_signature_columns_if_needed()
    columns = trainer._signature_columns
    if not isinstance(collator, PaddingFreeCollator):
        unlearned = None
        if isinstance(collator, DataCollatorForLanguageModeling):
            # It takes padding for what to ignore, and with it every end of text that is the same.
            unlearned = collator.tokenizer.pad_token_id
        flattening = PaddingFreeCollator(
            pad_to_multiple_of=getattr(collator, "pad_to_multiple_of", None),
            unlearned_token_id=unlearned,
        )
        padded = {"data_collator": collator, "_signature_columns": columns}
        _predict_with(trainer, patch, trainer, padded)
        patch.replace(trainer, "data_collator", flattening)
    _read_streams_everywhere(trainer, patch)
    _attend_by_documents(patch, trainer.model)
    if trainer.args.remove_unused_columns:
        added = [name for name in _COLLATED_COLUMNS if name not in columns]
        patch.replace(trainer, "_signature_columns", [*columns, *added])
