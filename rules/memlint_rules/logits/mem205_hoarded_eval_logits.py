"""Evaluation that keeps the logits of every sequence on the GPU."""

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Fix,
    Object,
    Rule,
    Script,
    Trainer,
    advise,
    edits,
    facts,
    fix,
    triggers,
)

_COLLATOR = "transformers.DataCollatorForLanguageModeling"
_REDUCE = "preprocess_logits_for_metrics"
_ARGMAX = "lambda logits, labels: logits.argmax(dim=-1)"


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.trainers:
        config = trainer.config
        if (
            config is None
            or not _collects(script, trainer)
            or not _keeps_vocabulary(script, trainer)
        ):
            continue
        if _on_gpu(config) and _evaluates(script, trainer, config):
            yield _finding(script, trainer)


def _collects(script: Script, trainer: Trainer) -> bool:
    """True if predictions are definitely collected as they are, for a metric."""
    metrics = trainer.setting("compute_metrics")
    if metrics.given is not True or metrics.is_none:
        return False
    if facts.trainer_overrides(script, trainer, "prediction_step", "evaluation_loop"):
        return False
    if trainer.subclass is not None and script.owner_of_loss(trainer).full_logits is not True:
        return False
    return not trainer.has_unknown_keywords and trainer.setting(_REDUCE).given is False


def _keeps_vocabulary(script: Script, trainer: Trainer) -> bool:
    """True if what is kept is as wide as the vocabulary. Preference trainers keep rewards."""
    if trainer.kind == "trl.SFTTrainer":
        return True
    if not trainer.kind.startswith("transformers."):
        return False
    collator = trainer.setting("data_collator").value
    if isinstance(collator, Object) and script.api.canonical(collator.type or "") == _COLLATOR:
        return True
    load = trainer.model.load
    return load is not None and (script.loads_language_model(load) or "MaskedLM" in load.name)


def _on_gpu(config: Config) -> bool:
    """True if predictions are certainly kept, as logits, on the GPU."""
    steps = config.setting("eval_accumulation_steps")
    generates = config.setting("predict_with_generate")
    loss_only = config.setting("prediction_loss_only")
    return (
        (steps.given is False or steps.is_none)
        and (generates.given is False or generates.value is False)
        and (loss_only.given is False or loss_only.value is False)
        and not (config.from_command_line or config.has_unknown_keywords)
    )


def _evaluates(script: Script, trainer: Trainer, config: Config) -> bool:
    """True if evaluation runs: by a schedule, or because the script calls for it."""
    if trainer.evaluates_on_schedule or config.setting("do_eval").value is True:
        return True
    return bool(script.method_calls("evaluate", "predict"))


def _finding(script: Script, trainer: Trainer) -> Finding:
    keyword = trainer.keyword_node("compute_metrics")
    span = script.span(keyword.value if keyword is not None else trainer.node.func)
    return Finding(
        span,
        "`compute_metrics` makes evaluation keep the logits of all sequences, tokens x vocabulary "
        f"each, on the GPU: there is no `{_REDUCE}`",
        _fix(script, trainer),
    )


def _fix(script: Script, trainer: Trainer) -> Fix:
    changes = _reducing_edits(script, trainer)
    if changes:
        message = f"Keep each batch's argmax only, by `{_REDUCE}`"
        if _is_read_elsewhere(script, trainer):
            return fix(f"{message}, if nothing else reads predictions", changes, unsafe=True)
        return fix(message, changes)
    return advise(
        f"Reduce the logits batch by batch in `{_REDUCE}`, for instance to their argmax, or set "
        "`eval_accumulation_steps`"
    )


def _reducing_edits(script: Script, trainer: Trainer) -> tuple[edits.Edit, ...]:
    """Where the metric takes nothing of the logits but their argmax: take it before they are kept.

    Withheld where it decodes ids (padding is -100 then) and for the tuples of encoder-decoders.
    """
    users = [one for one in script.trainers if one.setting("compute_metrics").given is not False]
    metric = (
        facts.metric_of(script, trainer) if trainer.model.causal_lm and len(users) == 1 else None
    )
    if metric is None or metric.argmax is None or metric.decodes:
        return ()
    call, read = metric.argmax
    return (
        edits.SetKeyword(trainer.span, _REDUCE, _ARGMAX, beside_unpacking=True),
        edits.ReplaceExpression(script.span(call), script.text(read)),
    )


def _is_read_elsewhere(script: Script, trainer: Trainer) -> bool:
    """True if the script may read predictions itself, or has another use for the metric."""
    metric = facts.metric_of(script, trainer)
    once = metric is not None and script.is_read_once(metric.node.name)
    return not once or facts.reads_predictions(script, trainer)


RULE = Rule(
    summary="evaluation keeps the logits of the whole evaluation set on the GPU",
    check=check,
    triggers=(triggers.LIBRARIES, frozenset({"compute_metrics"})),
    effect={"eval_rows": 0},
)
