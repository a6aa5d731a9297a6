"""What padding costs, and the edits that leave it to a collator.

Tokenization that no longer pads needs a collator that does: examples of different lengths crash
without one. Which collator may take over depends on the labels and on the one that is there.
"""

import ast

from memlint.rule import (
    Call,
    Fix,
    Object,
    Script,
    Setting,
    Symbol,
    Trainer,
    edits,
    facts,
    fix,
)

_PADS_INPUTS = "transformers.DataCollatorWithPadding"
_PADS_LABELS = "transformers.DataCollatorForSeq2Seq"
_PADS_TOKEN_LABELS = "transformers.DataCollatorForTokenClassification"
_MAKES_LABELS = "transformers.DataCollatorForLanguageModeling"
_OF_SFT = "trl.trainer.sft_trainer.DataCollatorForLanguageModeling"
PADDING_COLLATORS = (_PADS_INPUTS, _PADS_LABELS, _PADS_TOKEN_LABELS)
_MANY = 10_000  # of more rows nine tenths are padding, too
_FRACTIONS = (
    (0.42, "a third"),
    (0.58, "half"),
    (0.69, "two thirds"),
    (0.80, "three quarters"),
    (0.88, "four fifths"),
)
_NO_PADDING = ("transformers.default_data_collator", "transformers.DefaultDataCollator")


def share_of_padding(rows: int, *, pairs: bool = False) -> str:
    """The share of padding in a batch of ``rows``, in words: nobody has measured it.

    Lengths are taken as exponentially distributed: the longest of B rows is H_B = 1 + 1/2 + ... +
    1/B times the mean, so 1 - 1/H_B is padding. ``pairs``: two rows each share their prompt, so
    that they lie between one length and two.
    """
    share, why = _fraction(rows), ""
    if pairs:
        least = _fraction(rows // 2)
        share = share if share == least else f"{least} to {share}"
        why = ", as the rows of a pair share their prompt"
    return f"typically about {share} of the batch is padding{why}"


def _fraction(rows: int) -> str:
    share = 1 - 1 / sum(1 / row for row in range(1, min(rows, _MANY) + 1))
    return next((words for most, words in _FRACTIONS if share < most), "nine tenths")


def sorted_rows(script: Script, config: Call) -> Fix | None:
    """Rows of like length in one batch, by an option of every version; None where it is given."""
    new, old = "train_sampling_strategy", "group_by_length"
    if any(config.setting(name).given is not False for name in (new, old)):
        return None
    name, source = (new, f'"{old}"') if config.has_option(new) else (old, "True")
    changes = edits.set_option(script, config, name, source)
    return fix(f"Set `{name}={source}`", changes, unsafe=True)


# -- leaving padding to the collator ---------------------------------------------------------------


def leave_padding_to_collator(
    script: Script, tokenization: facts.Tokenization, together: tuple[Call, ...]
) -> tuple[edits.Edit, ...] | None:
    """Edits after which a collator pads, not the tokenizer; None where that may crash.

    together: the calls in the same function that pad to a fixed length.
    """
    if any(one.setting("return_tensors").given is not False for one in together):
        return None
    if any(one.has_unknown_keywords for one in together) or not tokenization.makes_lists:
        return None
    trainers = script.trainers
    parts = [_in_trainer(script, one, tokenization) for one in trainers]
    if None in parts or not trainers or _is_read_elsewhere(script, tokenization):
        return None
    changes: list[edits.Edit] = [edits.RemoveKeyword(one.span, "padding") for one in together]
    changes += (edit for part in parts for edit in part or ())
    return tuple(dict.fromkeys(changes))


def _is_read_elsewhere(script: Script, tokenization: facts.Tokenization) -> bool:
    """True if others than the trainers here may read the rows: a loop, or a loader."""
    loaded = [one for one in facts.all_datasets_of(script) if one.loader is not None]
    calls = [each.call.node for one in loaded for each in one.effects if each.call]
    mixed = script.loops or tokenization.call.node in calls
    return bool(mixed) or script.trainers != script.all_trainers


def padding_advice(script: Script, tokenization: facts.Tokenization) -> str:
    """Which collator would pad, by what the labels are: a class, or a row of them."""
    names = " ".join(load.name for load in script.model_loads)
    collator = "`DataCollatorForSeq2Seq` pads labels" if tokenization.labels else ""
    if "TokenClassification" in names:
        collator = "`DataCollatorForTokenClassification` pads labels"
    elif any(kind in names for kind in ("SequenceClassification", "QuestionAnswering")):
        collator = "`DataCollatorWithPadding`"
    advice = "Pad in the collator, each batch to its own longest"
    return f"{advice} ({collator})" if collator else advice


def makes_own_mask(trainer: Trainer) -> bool:
    """True if it is an ``SFTTrainer``, whose own collator pads and makes a mask of ones; older
    releases took the one of transformers."""
    return (
        trainer.kind == "trl.SFTTrainer"
        and trainer.script.api.canonical(_OF_SFT) == _OF_SFT
        and trainer.setting("data_collator").given is False
        and trainer.setting("formatting_func").given is False
        and not trainer.has_unknown_keywords
    )


def _in_trainer(
    script: Script, trainer: Trainer, tokenization: facts.Tokenization
) -> tuple[edits.Edit, ...] | None:
    if makes_own_mask(trainer):
        return ()
    given = trainer.setting("data_collator")
    collator = _collator(script, given)
    labels = tokenization.labels
    whole = trainer.subclass is None and not trainer.has_unknown_keywords
    if collator == _MAKES_LABELS and isinstance(given.value, Object) and whole:
        return _beside_made_labels(script, tokenization, given) if labels else ()
    if labels == "others" and trainer.model.causal_lm is not False:
        # A decoder wants as many labels as inputs, and padding made them so.
        return None
    if collator in (_PADS_LABELS, _PADS_TOKEN_LABELS):
        return () if given.value is not None and not _pads_to_fixed_length(given) else None
    if not whole:
        return None
    return _beside_other(script, trainer, tokenization, collator)


def _without_labels(script: Script, tokenization: facts.Tokenization) -> tuple[edits.Edit, ...]:
    """The rows without labels that a collator makes itself, whatever they hold."""
    return tuple(edits.RemoveStatement(script.span(node)) for node in tokenization.label_statements)


def _beside_made_labels(
    script: Script, tokenization: facts.Tokenization, given: Setting
) -> tuple[edits.Edit, ...] | None:
    """``DataCollatorForLanguageModeling`` makes labels, and cannot pad those that rows have."""
    if without := _without_labels(script, tokenization):
        return without
    made = script.call_at(given.value.node) if isinstance(given.value, Object) else None
    if made is None or made.setting("mlm").value is not False or tokenization.labels != "copies":
        return None
    return _exchange(script, made)


def _beside_other(
    script: Script, trainer: Trainer, tokenization: facts.Tokenization, collator: str
) -> tuple[edits.Edit, ...] | None:
    given = trainer.setting("data_collator")
    load = trainer.model.load
    language = trainer.model.loads_language_model
    scores = load is not None and "SequenceClassification" in load.name
    default_pads = given.given is False and _tokenizer_text(script, trainer) is not None
    if collator == _PADS_INPUTS or default_pads:
        if scores or not tokenization.labels:
            return ()
        if isinstance(given.value, Object):
            made = script.call_at(given.value.node)
            return _exchange(script, made) if language and made else None
    if given.given is False or collator in _NO_PADDING:
        wanted = _PADS_LABELS if language else _PADS_INPUTS if scores else None
        if wanted:
            return _bring(script, trainer, tokenization, wanted)
    return None


def _collator(script: Script, given: Setting) -> str:
    """Canonical name of the collator's class or function, or the empty string."""
    if isinstance(given.value, Symbol):
        return script.api.canonical(given.value.name)
    if isinstance(given.value, Object) and given.value.type is not None:
        return script.api.canonical(given.value.type)
    return ""


def _pads_to_fixed_length(given: Setting) -> bool:
    """True if a collator may pad to a fixed length itself: the finding there comes first."""
    made = given.value.made_by if isinstance(given.value, Object) else None
    return made is not None and made.keywords.get("padding") is not None


def _exchange(script: Script, made: Call) -> tuple[edits.Edit, ...] | None:
    """The collator's place taken by one that pads the labels, too."""
    tokenizer = made.keyword_node("tokenizer")
    argument = tokenizer.value if tokenizer else made.node.args[0] if made.node.args else None
    reference = edits.reference_to(script, _PADS_LABELS, made.node)
    if argument is None or reference is None:
        return None
    source = f"{reference.text}({script.text(argument)})"
    unused = edits.without_import(script, made.name)
    return (edits.ReplaceExpression(made.span, source), *reference.edits, *unused)


def _bring(
    script: Script, reader: Call, tokenization: facts.Tokenization, collator: str
) -> tuple[edits.Edit, ...] | None:
    tokenizer = _tokenizer_text(script, reader) or _shared_name(script, reader, tokenization)
    reference = edits.reference_to(script, collator, reader.node)
    if tokenizer is None or reference is None:
        return None
    source = f"{reference.text}({tokenizer})"
    unused = edits.without_import(script, _collator(script, reader.setting("data_collator")))
    return (edits.SetKeyword(reader.span, "data_collator", source), *reference.edits, *unused)


def _tokenizer_text(script: Script, reader: Call) -> str | None:
    for name in ("processing_class", "tokenizer"):
        keyword = reader.keyword_node(name)
        if keyword is not None and isinstance(keyword.value, ast.Name | ast.Attribute):
            return script.text(keyword.value)
    return None


def _shared_name(script: Script, reader: Call, tokenization: facts.Tokenization) -> str | None:
    """The tokenizer's name, where it means the same at the trainer."""
    func = tokenization.call.node.func
    function = tokenization.function
    if not isinstance(func, ast.Name) or function is None or tokenization.tokenizer_is_parameter:
        return None
    same = script.function(function) is script.function(reader.node)
    return func.id if same else None
