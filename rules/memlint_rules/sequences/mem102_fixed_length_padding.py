"""A training set padded to one fixed length.

``padding="max_length"`` in tokenization makes every example as long as the longest allowed. A
batch that a collator pads is as long as its own longest example. Activations, logits and time grow
with the padded length. Source: transformers documentation, "Padding and truncation".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    DIFFUSION,
    LIBRARIES,
    OFF_CUDA,
    PADDING_COLLATORS,
    VISION,
    Call,
    Example,
    Finding,
    Level,
    ReplaceExpression,
    Rule,
    Script,
    Span,
    Tokenization,
    advise,
    fix,
    leave_padding_to_collator,
    makes_own_mask,
    padding_advice,
)

_FIXED = "max_length"
# Labels of a few tokens (answers, classes) cost nothing, padded or not.
_WORTH_IT = 32


def check(script: Script) -> Iterator[Finding]:
    if script.compiles_one_shape:
        return
    for collator in script.calls_to(*PADDING_COLLATORS):
        if collator.setting("padding").is_value(_FIXED) and script.trains:
            yield _in_collator(script, collator)
    # TRL's other trainers tokenize by themselves: what is padded here does not reach them.
    own = any(one.prepares_rows for one in script.trainers)
    padded = [one for one in script.tokenizations if _pads_to_fixed_length(one.call)]
    for one in padded:
        if one.collates_training:
            yield _in_collator(script, one.call)
        elif one.prepares_training and not own:
            together = tuple(each.call for each in padded if each.function is one.function)
            yield _in_preparation(script, one, together)


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
    edits = None
    # Several tensors padded apart may have to be as long as each other.
    alone = sum(script.function(one.node) is function for one in padding) == 1
    if keyword is not None and isinstance(keyword.value, ast.Constant) and alone:
        edits = (ReplaceExpression(script.span(keyword.value), '"longest"'),)
    made = fix("Pad each batch to its own longest", edits, unsafe=True)
    return Finding(_place(script, call), _message(call), made)


def _in_preparation(script: Script, one: Tokenization, together: tuple[Call, ...]) -> Finding:
    message, level = _message(one.call), None
    if script.trainers and all(map(makes_own_mask, script.trainers)):
        message += "; `SFTTrainer` ignores the mask that marks the padding, and trains on it"
        level = Level.ERROR
    edits = leave_padding_to_collator(script, one, together)
    made = advise(padding_advice(script, one))
    if edits is not None:
        made = fix("Leave padding to the collator", edits, unsafe=True)
    return Finding(_place(script, one.call), message, made, level)


def _place(script: Script, call: Call) -> Span:
    keyword = call.keyword_node("padding")
    return script.span(keyword.value if keyword else call.node)


def _message(call: Call) -> str:
    length = call.setting("max_length").value
    tokens = f"{length} tokens" if type(length) is int else "one fixed length"
    return f"pads every example to {tokens}, not to the longest of its batch"


RULE = Rule(
    code="MEM102",
    name="fixed-length-padding",
    level=Level.WASTE,
    summary="training examples padded to a fixed length",
    why=(
        '`padding="max_length"` makes every example of the training set as long as the longest '
        "allowed, and activations, logits and time grow with the padded length. Padded by the "
        "collator, a batch is as long as its own longest example: with a mean of 200 tokens and a "
        "maximum of 512 that is about half. Under `SFTTrainer` it is an error besides: its "
        "collator makes its own attention mask, all ones, so the padding is attended to and "
        "trained on. Silent where shapes are compiled or captured."
    ),
    fix_safety=(
        "Unsafe: batches have other shapes, and another collator may mask other labels. Made only "
        "where a padding collator follows, or can be put there: without one, examples of different "
        "lengths crash the run. Advice for a data loader or collator of the script's own."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"max_length"})),
    references=(
        "https://huggingface.co/docs/transformers/pad_truncation",
        "https://huggingface.co/docs/transformers/main_classes/data_collator",
    ),
    skips=(OFF_CUDA, DIFFUSION, VISION),
    examples=(
        Example(
            title="a collator that pads follows",
            bad="""\
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
train = dataset.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=512))
collator = DataCollatorWithPadding(tokenizer)
Trainer(model, args, train_dataset=train, data_collator=collator).train()
""",
            good="""\
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
train = dataset.map(lambda row: tokenizer(row["text"], max_length=512))
collator = DataCollatorWithPadding(tokenizer)
Trainer(model, args, train_dataset=train, data_collator=collator).train()
""",
        ),
    ),
)
