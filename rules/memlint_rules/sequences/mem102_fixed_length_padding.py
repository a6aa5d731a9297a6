"""A training set padded to one fixed length."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
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
from memlint_rules.sequences.padding import (
    PADDING_COLLATORS,
    leave_padding_to_collator,
    makes_own_mask,
    padding_advice,
)

_FIXED = "max_length"
_CUT = "Cut off the columns that are padding in the whole batch"
# Labels of a few tokens (answers, classes) cost nothing, padded or not.
_WORTH_IT = 32


def check(script: Script) -> Iterator[Finding]:
    if not (facts.compiles_one_shape(script) or facts.cuts_padding(script)):
        yield from _found(script)


def _found(script: Script) -> Iterator[Finding]:
    for collator in script.calls_to(*PADDING_COLLATORS):
        if collator.setting("padding").is_value(_FIXED) and script.trains:
            yield _in_collator(script, collator)
    # TRL's other trainers tokenize by themselves: what is padded here does not reach them.
    trainers = script.all_trainers
    own = bool(trainers) and all(_tokenizes(script, one) for one in trainers)
    padded = [
        tokenization
        for tokenization in script.tokenizations
        if _pads_to_fixed_length(tokenization.call)
    ]
    for one in padded:
        if one.collates_training:
            yield _in_collator(script, one.call)
        elif one.prepares_training and not own:
            together = tuple(each.call for each in padded if each.function is one.function)
            yield _in_preparation(script, one, together)
    yield from _by_hand(script, own)


def _tokenizes(script: Script, trainer: Trainer) -> bool:
    """True if a trainer tokenizes by itself whatever it gets; ``RewardTrainer`` takes pairs that
    are tokenized already under names of its own."""
    pairs = trainer.kind == "trl.RewardTrainer" and script.may_use("input_ids_chosen")
    return trainer.prepares_rows and not pairs


def _pads_to_fixed_length(call: Call) -> bool:
    setting = call.setting("padding")
    # A parameter's default is the caller's to change.
    if not setting.is_value(_FIXED) or call.keyword_node("padding") is None:
        return False
    length = call.setting("max_length").value
    return type(length) is not int or length >= _WORTH_IT


def _in_collator(script: Script, call: Call) -> Finding:
    keyword = call.keyword_node("padding")
    function = script.function(call.node)
    padding = [one for one in script.calls if one.keyword_node("padding") is not None]
    changes = None
    # Several tensors padded apart may have to be as long as each other.
    alone = sum(script.function(one.node) is function for one in padding) == 1
    if keyword is not None and isinstance(keyword.value, ast.Constant) and alone:
        changes = (edits.ReplaceExpression(script.span(keyword.value), '"longest"'),)
    made = fix("Pad each batch to its own longest", changes, unsafe=True)
    return Finding(_place(script, call), _message(call), made)


def _in_preparation(script: Script, one: facts.Tokenization, together: tuple[Call, ...]) -> Finding:
    message, level = _message(one.call), None
    hides = script.may_use("labels", "completion_mask", "assistant_masks")
    if not hides and script.all_trainers and all(map(makes_own_mask, script.all_trainers)):
        message += "; `SFTTrainer` ignores the mask that marks the padding, and trains on it"
        level = Level.ERROR
    changes = leave_padding_to_collator(script, one, together)
    made = advise(padding_advice(script, one))
    if changes is not None:
        made = fix("Leave padding to the collator", changes, unsafe=True)
    elif (cut := edits.cut_padding(script, one, several=len(together) > 1)) is not None:
        made = fix(_CUT, cut, unsafe=True)
    return Finding(_place(script, one.call), message, made, level)


def _by_hand(script: Script, own: bool) -> Iterator[Finding]:
    """``ids += [pad] * (limit - len(ids))`` in what makes the rows."""
    made = advise("Leave rows as long as they are, and fill them up where batches are made")
    if (cut := edits.cut_padding(script)) is not None:
        made = fix(_CUT, cut, unsafe=True)
    fillers = {
        filler.node: filler.tokens
        for one in facts.all_datasets_of(script)
        if one.is_trained_on
        if one.trainer is None or not _tokenizes(script, one.trainer)
        for filler in one.fillers
    }
    if not own and script.on_gpu:
        fillers = {one.node: one.tokens for one in facts.filled_lists_of(script)} | fillers
    for node, tokens in fillers.items():
        length = "one fixed length" if tokens is None else f"{tokens} tokens"
        message = f"fills every example up to {length}, not to the longest of its batch"
        if tokens is None or tokens >= _WORTH_IT:
            yield Finding(script.span(node), message, made)


def _place(script: Script, call: Call) -> Span:
    keyword = call.keyword_node("padding")
    return script.span(keyword.value if keyword else call.node)


def _message(call: Call) -> str:
    length = call.setting("max_length").value
    tokens = f"{length} tokens" if type(length) is int else "one fixed length"
    return f"pads every example to {tokens}, not to the longest of its batch"


RULE = Rule(
    summary="training examples padded to a fixed length",
    check=check,
    triggers=(
        (*triggers.ROWS, "DataLoader(", "Dataset):"),
        frozenset({"max_length", "pad_token", "pad_id", "] * ", "full((", ".long", "int64"}),
    ),
    skips=(Skip.OFF_CUDA, Skip.DIFFUSION, Skip.VISION),
    effect={"padding": "longest"},
)
