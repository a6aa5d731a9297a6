"""Evaluation of hand-written loops over larger batches than training's."""

from collections.abc import Iterator

from memlint.rule import Finding, Script, edits, facts, fix, is_elsewhere

# Bytes for each logit, in evaluation and in training.
EVALUATED, TRAINED = 10, 14


def larger_evaluation_loops(script: Script) -> Iterator[Finding]:
    """Evaluation loaders with larger batches than training's, over full logits."""
    if not any(_evaluates_logits(script, model) for model in script.loop_models):
        return
    loaders = [dataset for dataset in script.datasets if dataset.loader is not None]
    most = _most_rows_trained(loaders)
    for data in loaders if most is not None else ():
        rows = _rows(data)
        if data.purpose is not facts.Purpose.EVALUATION or rows is None or most is None:
            continue
        if EVALUATED * rows > TRAINED * most and not is_elsewhere(data.call.node):
            yield _larger_evaluation(script, data, rows, most)


def _most_rows_trained(loaders: list[facts.Dataset]) -> int | None:
    """The most rows that training takes at a time; None where that is not known."""
    training = [_rows(loader) for loader in loaders if loader.purpose is facts.Purpose.TRAINING]
    known = [rows for rows in training if rows is not None]
    return max(known) if known and len(known) == len(training) else None


def _larger_evaluation(script: Script, data: facts.Dataset, rows: int, most: int) -> Finding:
    node = data.batch_size.node if data.batch_size is not None else None
    node = None if is_elsewhere(node) else node
    times = EVALUATED * rows / (TRAINED * most)
    return Finding(
        script.span(node) if node is not None else data.span,
        f"evaluates {rows} rows at a time where it trains on {most}: its full logits take "
        f"{times:.1f} times those of training ({EVALUATED} bytes a token and word against "
        f"{TRAINED})",
        fix(
            f"Set `batch_size={most}`",
            edits.set_option(script, data.call, "batch_size", str(most)),
            unsafe=True,
        ),
    )


def _rows(data: facts.Dataset) -> int | None:
    setting = data.batch_size
    return setting.value if setting is not None and type(setting.value) is int else None


def _evaluates_logits(script: Script, model: facts.LoopModel) -> bool:
    """True if an evaluation of the script runs the model and builds its full logits."""
    return any(
        (forward.gradients is False or forward.training is False)
        and not forward.in_training_step
        and forward.facts.load is not None
        and forward.facts.load.node is model.load.node
        and forward.gives_full_logits is True
        for forward in script.forwards
    )
