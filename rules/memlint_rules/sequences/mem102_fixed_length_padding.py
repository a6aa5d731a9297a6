"""A training set padded to one fixed length.

``padding="max_length"`` in tokenization makes every example as long as the longest allowed. A
batch that a collator pads is as long as its own longest example. Activations, logits and time grow
with the padded length: with a mean of 200 tokens and a maximum of 512, most of what the GPU holds
is padding. Source: transformers documentation, "Padding and truncation" and "Data collator".

Who pads instead depends on what follows, and leaving that out would crash: the fix is made only
where a collator pads whatever the examples hold, or can be put there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from memlint.rule import (
    Applicability,
    Call,
    Edit,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    RemoveImport,
    RemoveKeyword,
    ReplaceExpression,
    Rule,
    Script,
    SetKeyword,
    Setting,
    Symbol,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import loads_language_model
from memlint_rules._tokenization import (
    FunctionNode,
    makes_labels,
    prepared_in,
    tokenizer_calls,
    trains,
)

_FIXED = "max_length"
_PADS_INPUTS = "transformers.DataCollatorWithPadding"
_PADS_LABELS = "transformers.DataCollatorForSeq2Seq"
_PADS_TOKEN_LABELS = "transformers.DataCollatorForTokenClassification"
_MAKES_LABELS = "transformers.DataCollatorForLanguageModeling"
_COLLATORS = (_PADS_INPUTS, _PADS_LABELS, _PADS_TOKEN_LABELS)
_NO_PADDING = ("transformers.default_data_collator", "transformers.DefaultDataCollator")
# Labels of a few tokens (answers, classes) cost nothing, padded or not.
_WORTH_IT = 32


def check(script: Script) -> Iterator[Finding]:
    if script.off_cuda or script.uses_diffusion or script.uses_vision or _wants_shapes(script):
        return
    for collator in script.calls_to(*_COLLATORS):
        if collator.setting("padding").is_value(_FIXED) and trains(script):
            yield _collator_finding(script, collator)
    padded = [call for call in tokenizer_calls(script) if _pads_to_fixed_length(call)]
    for call in padded:
        if _in_collator(script, call):
            yield _collator_finding(script, call)
            continue
        function = prepared_in(script, call)
        if function is not None:
            together = [one for one in padded if script.function(one.node) is function]
            finding = _preparation_finding(script, call, function, together)
            if finding is not None:
                yield finding


def _wants_shapes(script: Script) -> bool:
    """Whether something is compiled for one shape, which other lengths would compile again."""
    if any(config.setting("torch_compile").value is True for config in script.configs):
        return True
    compiles = script.calls_to("torch.compile", "torch.cuda.CUDAGraph", "torch.cuda.graph")
    return any(call.setting("dynamic").value is not True for call in compiles)


def _pads_to_fixed_length(call: Call) -> bool:
    setting = call.setting("padding")
    # A parameter's default is the caller's to change.
    if not setting.is_value(_FIXED) or call.keyword_node("padding") is None:
        return False
    length = call.setting("max_length").value
    return type(length) is not int or length >= _WORTH_IT


# -- padding in a collator -------------------------------------------------------------------------


def _in_collator(script: Script, call: Call) -> bool:
    function = script.function(call.node)
    if function is None or not trains(script):
        return False
    if script.enclosing(call.node, ast.If) is not None:
        # As in ``if on_tpu:``: for some runs only.
        return False
    owner = script.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name in ("__call__", "torch_call"):
        return "ollat" in owner.name
    for node in script.nodes(ast.keyword):
        if node.arg in ("collate_fn", "data_collator") and function.name in _last_names(node.value):
            return "eval" not in function.name and "test" not in function.name
    return False


def _last_names(node: ast.expr) -> set[str]:
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    }


def _collator_finding(script: Script, call: Call) -> Finding:
    keyword = call.keyword_node("padding")
    function = script.function(call.node)
    alone = [
        one
        for one in script.nodes(ast.keyword)
        if one.arg == "padding" and script.function(one) is function
    ]
    edits: tuple[Edit, ...] = ()
    # Several tensors padded apart may have to be as long as each other.
    if keyword is not None and isinstance(keyword.value, ast.Constant) and len(alone) == 1:
        edits = (ReplaceExpression(script.span(keyword.value), '"longest"'),)
    fix = Fix("Pad each batch to its own longest", edits, Applicability.UNSAFE)
    if not edits:
        fix = Fix("Pad each batch to its own longest", (), Applicability.DISPLAY)
    return Finding(script.span(keyword.value if keyword else call.node), _message(call), fix)


def _message(call: Call) -> str:
    length = call.setting("max_length").value
    tokens = f"{length} tokens" if type(length) is int else "one fixed length"
    return f"pads every example to {tokens}, not to the longest of its batch"


# -- padding in the preparation of a data set ------------------------------------------------------


def _preparation_finding(
    script: Script, call: Call, function: FunctionNode, together: Sequence[Call]
) -> Finding | None:
    keyword = call.keyword_node("padding")
    assert keyword is not None
    trainers = script.trainers
    if any(_prepares_itself(trainer) for trainer in trainers):
        return None
    message, level = _message(call), None
    if trainers and all(_ignores_mask(trainer) for trainer in trainers):
        message += "; `SFTTrainer` ignores the mask that marks the padding, and trains on it"
        level = Level.ERROR
    fix = Fix(_advice(script, function), (), Applicability.DISPLAY)
    if _may_get_ragged(function, together):
        collated = _collated_edits(script, call, function)
        if collated is not None:
            removed = tuple(RemoveKeyword(one.span, "padding") for one in together)
            fix = Fix("Leave padding to the collator", (*removed, *collated), Applicability.UNSAFE)
    return Finding(script.span(keyword.value), message, fix, level)


def _advice(script: Script, function: FunctionNode) -> str:
    """Which collator would pad, by what the labels are: a class, or a row of them."""
    names = " ".join(load.name for load in script.model_loads)
    collator = "`DataCollatorForSeq2Seq` pads labels" if makes_labels(function) else ""
    if "TokenClassification" in names:
        collator = "`DataCollatorForTokenClassification` pads labels"
    elif any(kind in names for kind in ("SequenceClassification", "QuestionAnswering")):
        collator = "`DataCollatorWithPadding`"
    advice = "Pad in the collator, each batch to its own longest"
    return f"{advice} ({collator})" if collator else advice


def _prepares_itself(trainer: Trainer) -> bool:
    """TRL's other trainers tokenize by themselves: what is padded here does not reach them."""
    return trainer.kind.startswith("trl.") and trainer.kind != "trl.SFTTrainer"


def _ignores_mask(trainer: Trainer) -> bool:
    return (
        trainer.kind == "trl.SFTTrainer"
        and trainer.setting("data_collator").given is False
        and trainer.setting("formatting_func").given is False
        and not trainer.open_ended
    )


def _may_get_ragged(function: FunctionNode, together: Sequence[Call]) -> bool:
    """Whether the function surely copes with examples of different lengths: no tensors in it."""
    if any(one.setting("return_tensors").given is not False for one in together):
        return False
    if any(one.open_ended for one in together):
        return False
    for node in ast.walk(function):
        match node:
            case ast.Name(id="torch" | "np" | "numpy"):
                return False
            case ast.Attribute(attr="clone" | "squeeze" | "shape" | "size" | "tolist" | "flatten"):
                return False
            # The text itself is tested or handed on.
            case ast.Compare() if _FIXED in ast.unparse(node) and "padding" in ast.unparse(node):
                return False
    return True


def _collated_edits(script: Script, call: Call, function: FunctionNode) -> tuple[Edit, ...] | None:
    """What must change so that a collator pads; None where that is not known."""
    changes = [_trainer_edits(script, trainer, call, function) for trainer in script.trainers]
    if not changes or script.loops:
        # A data loader of the script's own.
        return None
    if any(change is None for change in changes):
        return None
    return tuple(edit for change in changes if change for edit in change)


def _trainer_edits(
    script: Script, trainer: Trainer, call: Call, function: FunctionNode
) -> tuple[Edit, ...] | None:
    if _ignores_mask(trainer):
        return ()
    given = trainer.setting("data_collator")
    collator = _collator(script, given)
    has_labels = makes_labels(function)
    if (
        has_labels
        and trainer.model.causal_lm is not False
        and not _labels_are_inputs(function, call)
    ):
        # A decoder wants as many labels as inputs, and padding made them so.
        return None
    if collator in (_PADS_LABELS, _PADS_TOKEN_LABELS):
        return () if given.value is not None and not _fixed(given) else None
    if trainer.open_ended or trainer.subclass is not None:
        return None
    load = trainer.model.load
    language = load is not None and loads_language_model(load)
    scores = load is not None and "SequenceClassification" in load.name
    if collator == _MAKES_LABELS and isinstance(given.value, Object):
        if not has_labels:
            return ()
        made = script.call_at(given.value.node)
        causal = made is not None and made.setting("mlm").value is False
        return _exchange(script, made) if causal and language and made else None
    if collator == _PADS_INPUTS or (given.given is False and _tokenizer_text(script, trainer)):
        if scores or not has_labels:
            return ()
        if isinstance(given.value, Object):
            made = script.call_at(given.value.node)
            return _exchange(script, made) if language and made else None
    if given.given is False or collator in _NO_PADDING:
        wanted = _PADS_LABELS if language else _PADS_INPUTS if scores else None
        return _bring(script, trainer, call, wanted) if wanted else None
    return None


def _labels_are_inputs(function: FunctionNode, call: Call) -> bool:
    """Whether the labels are a plain copy of the input ids, so that both stay equally long."""
    values: list[ast.expr] = []
    tokenizer = ast.unparse(call.node.func)
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    if sum(ast.unparse(node.func) == tokenizer for node in calls) != 1:
        return False
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value="labels"))]):
                values.append(node.value)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                values += [value for key, value in pairs if _is_labels(key)]
    return bool(values) and all(map(_is_copy_of_inputs, values))


def _is_labels(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "labels"


def _is_copy_of_inputs(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="copy"), args=[]):
            return _is_copy_of_inputs(inner)
        case ast.Call(func=ast.Name(id="list") | ast.Attribute(attr="deepcopy"), args=[inner]):
            return _is_copy_of_inputs(inner)
        case ast.Subscript(slice=ast.Constant(value="input_ids")) | ast.Attribute(attr="input_ids"):
            return True
        case _:
            return False


def _collator(script: Script, given: Setting) -> str:
    """Canonical name of the collator's class or function, or the empty string."""
    if isinstance(given.value, Symbol):
        return script.api.canonical(given.value.name)
    if isinstance(given.value, Object) and given.value.type is not None:
        return script.api.canonical(given.value.type)
    return ""


def _fixed(given: Setting) -> bool:
    """Whether a collator pads to a fixed length itself: the finding there comes first."""
    made = given.value.made_by if isinstance(given.value, Object) else None
    slot = made.keywords.get("padding") if made is not None else None
    return slot is not None


def _exchange(script: Script, made: Call) -> tuple[Edit, ...] | None:
    """The collator's place taken by one that pads the labels, too."""
    tokenizer = made.keyword_node("tokenizer")
    argument = tokenizer.value if tokenizer else made.node.args[0] if made.node.args else None
    reference = script.reference(_PADS_LABELS, made.node)
    if argument is None or reference is None:
        return None
    source = f"{reference.text}({script.text(argument)})"
    unused = tuple(
        RemoveImport(node.module, alias.name)
        for node, alias, full in script.imports
        if isinstance(node, ast.ImportFrom) and node.module
        if script.api.canonical(full) == made.name
    )
    return (ReplaceExpression(made.span, source), *reference.edits, *unused)


def _bring(script: Script, trainer: Trainer, call: Call, collator: str) -> tuple[Edit, ...] | None:
    tokenizer = _tokenizer_text(script, trainer) or _shared_name(script, trainer, call)
    reference = script.reference(collator, trainer.node)
    if tokenizer is None or reference is None:
        return None
    source = f"{reference.text}({tokenizer})"
    return (SetKeyword(trainer.span, "data_collator", source), *reference.edits)


def _tokenizer_text(script: Script, trainer: Trainer) -> str | None:
    for name in ("processing_class", "tokenizer"):
        keyword = trainer.keyword_node(name)
        if keyword is not None and isinstance(keyword.value, ast.Name | ast.Attribute):
            return script.text(keyword.value)
    return None


def _shared_name(script: Script, trainer: Trainer, call: Call) -> str | None:
    """The tokenizer's name, where it means the same at the trainer."""
    func = call.node.func
    if not isinstance(func, ast.Name):
        return None
    function = script.function(call.node)
    own = function is not None and any(
        argument.arg == func.id for argument in ast.walk(function) if isinstance(argument, ast.arg)
    )
    same = function is not None and script.function(function) is script.function(trainer.node)
    return func.id if same and not own else None


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
        "trained on. Silent for diffusion models, whose text encoders want one length, for images, "
        "TPU and Neuron, and where shapes are compiled or captured."
    ),
    fix_safety=(
        "Unsafe: batches have other shapes, and a collator other than the one that was there may "
        "mask other labels. Made only where a padding collator follows, or can take the place of "
        "the one that is there: without one, examples of different lengths crash the run. For a "
        "data loader or collator of the script's own it is advice."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"max_length"})),
    references=(
        "https://huggingface.co/docs/transformers/pad_truncation",
        "https://huggingface.co/docs/transformers/main_classes/data_collator",
    ),
    examples=(
        Example(
            title="SFTTrainer trains on the padding: an error",
            bad="""\
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
train = dataset.map(
    lambda row: encode(row["text"]),
    remove_columns=["text"],
)


def encode(text):
    return tokenizer(text, padding="max_length", max_length=1024, truncation=True)


SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=train).train()
""",
            good="""\
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
train = dataset.map(
    lambda row: encode(row["text"]),
    remove_columns=["text"],
)


def encode(text):
    return tokenizer(text, max_length=1024, truncation=True)


SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=train).train()
""",
        ),
        Example(
            title="in a collate function",
            bad="""\
import torch
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def collate(rows):
    return tokenizer.pad(rows, padding="max_length", max_length=512, return_tensors="pt")


loader = torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=collate)
for batch in loader:
    model(**batch).loss.backward()
""",
            good="""\
import torch
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def collate(rows):
    return tokenizer.pad(rows, padding="longest", max_length=512, return_tensors="pt")


loader = torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=collate)
for batch in loader:
    model(**batch).loss.backward()
""",
        ),
    ),
)
