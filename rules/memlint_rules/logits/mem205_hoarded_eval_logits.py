"""Evaluation that keeps the logits of every sequence on the GPU.

With ``compute_metrics`` the trainer collects what the model predicts over the whole evaluation
set, on the GPU, until the end: T x V numbers per sequence. 1,000 sequences of 512 tokens and a
vocabulary of 150,000 are 143 GiB in bf16. ``preprocess_logits_for_metrics`` reduces each batch
before it is kept (an argmax keeps T integers); ``eval_accumulation_steps`` moves what is kept to
host memory, which then has to hold it. Source: transformers documentation, "Trainer";
huggingface/transformers issue 7158.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Config,
    Edit,
    Example,
    Finding,
    Fix,
    Function,
    Level,
    Object,
    ReplaceExpression,
    Rule,
    Script,
    SetKeyword,
    Trainer,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import loads_language_model

_COLLATOR = "transformers.DataCollatorForLanguageModeling"
_REDUCE = "preprocess_logits_for_metrics"
_ARGMAX = "lambda logits, labels: logits.argmax(dim=-1)"


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.trainers:
        config = trainer.config
        metrics = trainer.setting("compute_metrics")
        if metrics.given is not True or metrics.is_none or trainer.subclass is not None:
            continue
        if trainer.open_ended or trainer.setting(_REDUCE).given is not False:
            continue
        if config is None or not _keeps_vocabulary(script, trainer):
            continue
        if _on_gpu(config) and _evaluates(script, config):
            yield _finding(script, trainer)


def _keeps_vocabulary(script: Script, trainer: Trainer) -> bool:
    """Whether what is kept is as wide as the vocabulary. Preference trainers keep rewards."""
    if trainer.kind == "trl.SFTTrainer":
        return True
    if not trainer.kind.startswith("transformers."):
        return False
    collator = trainer.setting("data_collator").value
    if isinstance(collator, Object) and script.api.canonical(collator.type or "") == _COLLATOR:
        return True
    load = trainer.model.load
    return load is not None and (loads_language_model(load) or "MaskedLM" in load.name)


def _on_gpu(config: Config) -> bool:
    """Whether predictions are certainly kept, as logits, on the GPU."""
    steps = config.setting("eval_accumulation_steps")
    generates = config.setting("predict_with_generate")
    loss_only = config.setting("prediction_loss_only")
    return (
        (steps.given is False or steps.is_none)
        and (generates.given is False or generates.value is False)
        and (loss_only.given is False or loss_only.value is False)
        and not (config.fed_by_parser or config.open_ended)
    )


def _evaluates(script: Script, config: Config) -> bool:
    """Whether evaluation runs: by a schedule, or because the script asks for it."""
    for name in ("eval_strategy", "evaluation_strategy"):
        setting = config.setting(name)
        if setting.given and setting.is_value("steps", "epoch"):
            return True
    if config.setting("do_eval").value is True:
        return True
    return bool(script.method_calls("evaluate", "predict"))


def _finding(script: Script, trainer: Trainer) -> Finding:
    keyword = trainer.keyword_node("compute_metrics")
    span = script.span(keyword.value if keyword is not None else trainer.node.func)
    edits = _reducing_edits(script, trainer)
    return Finding(
        span,
        "`compute_metrics` makes evaluation keep the logits of all sequences, tokens x vocabulary "
        f"each, on the GPU: there is no `{_REDUCE}`",
        Fix(f"Keep each batch's argmax only, by `{_REDUCE}`", edits)
        if edits
        else Fix(
            f"Reduce the logits batch by batch in `{_REDUCE}`, for instance to their argmax, or "
            "set `eval_accumulation_steps`"
        ),
    )


def _reducing_edits(script: Script, trainer: Trainer) -> tuple[Edit, ...]:
    """Where the metric takes nothing of the logits but their argmax: take it before they are kept.

    Ids padded with -100 come out where all-equal logits gave 0, so a metric that decodes what it
    is given must deal with them by itself.
    """
    metric = trainer.setting("compute_metrics").raw
    if not isinstance(metric, Function) or not isinstance(metric.node, ast.FunctionDef):
        return ()
    if not trainer.model.causal_lm:
        # Encoder-decoders hand over a tuple.
        return ()
    users = [one for one in script.trainers if one.setting("compute_metrics").given is not False]
    reads = _logit_reads(metric.node)
    if len(users) != 1 or len(reads) != 1 or _calls_decode(metric.node):
        return ()
    (read,) = reads
    call = script.parent(read)
    if not isinstance(call, ast.Call) or not _is_argmax(script, call, read):
        return ()
    return (
        SetKeyword(trainer.span, _REDUCE, _ARGMAX),
        ReplaceExpression(script.span(call), script.text(read)),
    )


def _logit_reads(metric: ast.FunctionDef) -> list[ast.expr]:
    """Reads of the predictions in ``logits, labels = eval_pred`` or ``eval_pred.predictions``."""
    if len(metric.args.args) != 1:
        return []
    parameter = metric.args.args[0].arg
    reads = [
        node
        for node in ast.walk(metric)
        if isinstance(node, ast.Name) and node.id == parameter and isinstance(node.ctx, ast.Load)
    ]
    names: set[str] = set()
    found: list[ast.expr] = []
    for node in ast.walk(metric):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=first), ast.Name()])],
                value=ast.Name(id=source),
            ) if source == parameter:
                names.add(first)
                reads = [read for read in reads if read is not node.value]
            case ast.Attribute(value=ast.Name(id=source) as inner, attr=attribute):
                if source == parameter and attribute in ("predictions", "label_ids"):
                    reads = [read for read in reads if read is not inner]
                    if attribute == "predictions":
                        found.append(node)
    if reads:
        # The pair goes somewhere else as a whole.
        return []
    stores = 0
    for node in ast.walk(metric):
        if isinstance(node, ast.Name) and node.id in names:
            if isinstance(node.ctx, ast.Load):
                found.append(node)
            else:
                stores += 1
    # ``logits = np.argmax(logits)`` binds the name again: what is read later is not the logits.
    return found if stores <= len(names) else []


def _is_argmax(script: Script, call: ast.Call, read: ast.expr) -> bool:
    """``np.argmax(read, axis=-1)``."""
    if script.name(call.func) not in ("numpy.argmax", "np.argmax") or call.args[:1] != [read]:
        return False
    axes = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    return len(axes) == 1 and script.python(axes[0]) in (-1, 2)


def _calls_decode(metric: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("decode", "batch_decode")
        for node in ast.walk(metric)
    )


RULE = Rule(
    code="MEM205",
    name="hoarded-eval-logits",
    level=Level.WASTE,
    summary="evaluation keeps the logits of the whole evaluation set on the GPU",
    why=(
        "With `compute_metrics` the trainer keeps every prediction of the evaluation set on the "
        "GPU until the set is done, and a language model's predictions are its logits: tokens x "
        "vocabulary for each sequence. 1,000 sequences of 512 tokens with a vocabulary of 150,000 "
        "are 143 GiB in bf16. `preprocess_logits_for_metrics` reduces each batch before it is "
        "kept; `eval_accumulation_steps` moves what is kept to host memory. Without "
        "`compute_metrics` evaluation keeps losses only, and with `predict_with_generate` it keeps "
        "token ids: silent there."
    ),
    fix_safety=(
        "Safe: the argmax moves from the metric to the batch, and training does not see it. Done "
        "only where the metric reads nothing but the argmax of the logits and decodes nothing; "
        "elsewhere it is advice."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"compute_metrics"})),
    references=(
        "https://huggingface.co/docs/transformers/main_classes/trainer",
        "https://github.com/huggingface/transformers/issues/7158",
    ),
    examples=(
        Example(
            title="a metric over the argmax",
            bad="""\
import numpy as np
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    predictions = np.argmax(logits, axis=-1)
    mask = labels != -100
    return {"accuracy": (predictions == labels)[mask].mean()}


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out", eval_strategy="epoch"),
    train_dataset=train,
    eval_dataset=test,
    compute_metrics=compute_metrics,
)
""",
            good="""\
import numpy as np
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    predictions = logits
    mask = labels != -100
    return {"accuracy": (predictions == labels)[mask].mean()}


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out", eval_strategy="epoch"),
    train_dataset=train,
    eval_dataset=test,
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
)
""",
        ),
        Example(
            title="a metric that needs more than the argmax: advice",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from metrics import perplexity

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(model, TrainingArguments("out"), compute_metrics=perplexity)
print(trainer.evaluate(test))
""",
        ),
    ),
)
