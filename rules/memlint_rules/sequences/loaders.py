"""Loaders of loops, and collators that a script writes, which pad each batch to its longest row."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Script, advise, facts
from memlint_rules.sequences.padding import share_of_padding

_LAYS = "Lay rows end to end: collate with `memlint_runtime.PaddingFreeCollator()`"

_BY_CHANCE = ("RandomSampler", "DistributedSampler")  # of torch


def padded_by_hand(script: Script) -> Iterator[Finding]:
    """What nothing sorts, of a decoder that a loop or a plain trainer trains."""
    for data in script.datasets:
        rows = data.batch_size.value if data.batch_size is not None else None
        model = _model_of(script, data)
        if model is None or type(rows) is not int or rows < 2 or _sorts(data):
            continue
        pads = _tokenizer_of_batches(script, data)
        if facts.pads_to_longest(data) and script.lengths_may_differ(data.trainer):
            pads = data.call
        if pads is not None:
            where = "" if model.keeps_documents_apart else ", where its attention keeps them apart"
            yield Finding(
                script.span(pads.node.func),
                f"pads every row to the longest of {rows}: {share_of_padding(rows)}",
                advise(f"{_LAYS} after `use_variable_length_attention(model)`{where}"),
            )


def _tokenizer_of_batches(script: Script, data: facts.Dataset) -> Call | None:
    """What pads the texts of a batch to the longest, in the steps of a loop or for its loader."""
    for one in script.tokenizations if data.trainer is None else ():
        pads = one.call.setting("padding").is_value(True, "longest")
        if pads and one.from_text and one.collates_training:
            return one.call
    return None


def _sorts(data: facts.Dataset) -> bool:
    """True if rows of like lengths may come together."""
    if data.trainer is not None:
        return data.trainer.may_sort_rows
    sampler = data.call.setting("sampler")
    by_chance = str(getattr(sampler.value, "type", "")).endswith(_BY_CHANCE)
    alone = data.call.setting("batch_sampler").given is False
    return not alone or not (sampler.given is False or by_chance)


def _model_of(script: Script, data: facts.Dataset) -> facts.ModelFacts | None:
    """The decoder that certainly trains on a data set, where a row may lose its place."""
    trainer, models = data.trainer, list[facts.ModelFacts]()
    if trainer is None:
        passes = (one for one in script.all_forwards if one.steps and one.records_gradients)
        models = [one.facts for one in passes]
    elif trainer.kind == "transformers.Trainer" and trainer.subclass is None:
        metrics = trainer.setting("compute_metrics").given is not False
        models = [trainer.model] if trainer in script.training and not metrics else []
        models = models if trainer.collator is None else []
    known = (one for one in models if one.causal_lm is True and not one.is_toy)
    return next(known, None) if data.purpose is facts.Purpose.TRAINING else None
