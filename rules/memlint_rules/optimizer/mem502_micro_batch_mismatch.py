"""A micro-batch that does not fit the accumulation beside it.

Activations and logits grow with the rows of a micro-batch, not with the rows of a step. Many rows
at once without accumulation take that memory for nothing; one row at a time, accumulated often,
leaves the GPU idle where a few would fit. Source: transformers documentation, "GPU" (batch size
and gradient accumulation).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    edits,
    facts,
    fix,
    triggers,
)

_BY_TOKEN = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
_BATCH, _STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"
# Rows that are many for one forward pass of a language model, and what they are split into.
_MANY, _SPLIT = 32, 8
# Accumulated single rows that are many, and the rows to try together.
_OFTEN, _TOGETHER = 16, 4
# Billions of parameters: a smaller model takes many rows at once; of a larger one a row may do.
_LEAST, _MOST = 0.5, 10.0


def check(script: Script) -> Iterator[Finding]:
    for one in script.trained:
        size = one.facts.billions
        if size is None:
            continue
        if one.config is not None:
            yield from _of_config(script, one, one.config, size)
        elif one.forward is not None and size <= _MOST:
            yield from _of_loop(script)


def _of_config(
    script: Script, one: facts.Trained, config: Config, size: float
) -> Iterator[Finding]:
    rows, steps = config.effective(_BATCH).value, config.effective(_STEPS).value
    if type(rows) is not int or type(steps) is not int:
        return
    given = config.setting(_BATCH)
    place = script.span(given.node if given.node is not None else one.place)
    if rows >= _MANY and steps == 1 and size >= _LEAST:
        yield Finding(
            place,
            f"{rows} rows go through the model at once, and nothing is accumulated: activations "
            f"and logits take {rows // _SPLIT} times the memory of {_SPLIT} rows",
            _set(script, one, config, rows, _SPLIT),
        )
    elif rows == 1 and steps >= _OFTEN and config.packing is None and size <= _MOST:
        yield Finding(place, _words(steps), _set(script, one, config, steps, _TOGETHER))


def _words(steps: int) -> str:
    return (
        f"one row at a time, accumulated {steps} times: where {_TOGETHER} rows fit, the same step "
        "takes a quarter of the passes"
    )


def _set(script: Script, one: facts.Trained, config: Config, total: int, wanted: int) -> Fix:
    """The same rows a step, ``total``. More rows at once may not fit."""
    message = f"Set `{_BATCH}={wanted}` and `{_STEPS}={total // wanted}`"
    if total % wanted:
        return advise(message)
    changes = edits.together(
        edits.set_option(script, config, _BATCH, str(wanted)),
        edits.set_option(script, config, _STEPS, str(total // wanted)),
    )
    unsafe = wanted != _SPLIT or not _is_exact(script, one, config)
    effect = {"micro_batch": wanted, "gradient_accumulation": total // wanted}
    return fix(message, changes, unsafe=unsafe, effect=effect)


def _is_exact(script: Script, one: facts.Trained, config: Config) -> bool:
    """True if each token of a step counts alike, however its rows are split."""
    return (
        one.trainer is not None
        and one.trainer.kind in _BY_TOKEN
        and script.owner_of_loss(one.trainer).owner in (facts.Owner.TRANSFORMERS, facts.Owner.TRL)
        and config.setting("dataloader_drop_last").given is False
        and not one.facts.family.experts
        and script.api.accepts("transformers.Trainer.compute_loss", "num_items_in_batch") is True
    )


def _of_loop(script: Script) -> Iterator[Finding]:
    steps = script.accumulation
    for data in script.datasets:
        batch = data.batch_size
        if data.loader is None or data.purpose.value != "training" or batch is None:
            continue
        if steps is not None and steps >= _OFTEN and batch.is_value(1):
            made = advise(f"Try `batch_size={_TOGETHER}`, accumulated {steps // _TOGETHER} times")
            place = batch.node if batch.node is not None else data.loader.node.func
            yield Finding(script.span(place), _words(steps), made)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    rows = run.micro_batch.number or 0
    if rows < 16 or not run.gradient_accumulation.is_value(1) or run.in_backward.is_value(True):
        return
    few = next((one for one in (4, 3, 2) if rows % one == 0), 1)
    yield Finding(
        run.micro_batch.span,
        f"the activations of {rows} samples are on the GPU at once: accumulating gradients over "
        "smaller batches learns the same",
        by_change(run.set(micro_batch=few, gradient_accumulation=rows // few)),
    )


RULE = Rule(
    code="MEM502",
    name="micro-batch-mismatch",
    level=Level.HINT,
    summary="a micro-batch that does not fit the accumulation beside it",
    check=check,
    of_run=of_run,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.VISION),
    triggers=(triggers.LIBRARIES, frozenset({_BATCH, "batch_size"})),
)
