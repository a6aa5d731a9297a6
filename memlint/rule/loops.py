"""The rules of trainers, for hand-written loops, which have no configuration.

Each function gives the findings of one rule in loops of plain torch, accelerate and PEFT. They rest
on models that a step of the script certainly trains (``script.loop_models``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.engine.project import is_elsewhere
from memlint.engine.values import Value
from memlint.rule.findings import Finding
from memlint.rule.kit import advise, fix
from memlint.runs.changes import set_option
from memlint.script import Call, Dataset, LoopModel, Purpose, Script

# Bytes for each logit, in evaluation and in training.
_EVALUATED, _TRAINED = 10, 14


def larger_evaluation_loops(script: Script) -> Iterator[Finding]:
    """Evaluation loaders with larger batches than training's, over full logits (MEM207)."""
    if not any(_evaluates_logits(script, model) for model in script.loop_models):
        return
    loaders = [dataset for dataset in script.datasets if dataset.loader is not None]
    most = _most_rows_trained(loaders)
    for data in loaders if most is not None else ():
        rows = _rows(data)
        if data.purpose is not Purpose.EVALUATION or rows is None or most is None:
            continue
        if _EVALUATED * rows > _TRAINED * most and not is_elsewhere(data.call.node):
            yield _larger_evaluation(script, data, rows, most)


def _most_rows_trained(loaders: list[Dataset]) -> int | None:
    """The most rows that training takes at a time; None where that is not known."""
    training = [_rows(loader) for loader in loaders if loader.purpose is Purpose.TRAINING]
    known = [rows for rows in training if rows is not None]
    return max(known) if known and len(known) == len(training) else None


def _larger_evaluation(script: Script, data: Dataset, rows: int, most: int) -> Finding:
    node = _first_here(data.batch_size.node if data.batch_size is not None else None)
    times = _EVALUATED * rows / (_TRAINED * most)
    return Finding(
        script.span(node) if node is not None else data.span,
        f"evaluates {rows} rows at a time where it trains on {most}: its full logits take "
        f"{times:.1f} times those of training ({_EVALUATED} bytes a token and word against "
        f"{_TRAINED})",
        fix(
            f"Set `batch_size={most}`",
            set_option(script, data.call, "batch_size", str(most)),
            unsafe=True,
        ),
    )


def _rows(data: Dataset) -> int | None:
    setting = data.batch_size
    return setting.value if setting is not None and type(setting.value) is int else None


def _evaluates_logits(script: Script, model: LoopModel) -> bool:
    """True if an evaluation of the script runs the model and builds its full logits."""
    return any(
        (forward.gradients is False or forward.training is False)
        and not forward.in_training_step
        and forward.facts.load is not None
        and forward.facts.load.node is model.load.node
        and forward.gives_full_logits is True
        for forward in script.forwards
    )


def references_of_loops(script: Script) -> Iterator[Finding]:
    """Frozen copies of the trained model, whose log-probabilities need no second set of weights
    (MEM405)."""
    seen = set()
    for one in script.frozen_passes:
        policy = next((model for model in script.loop_models if model.step is one.step), None)
        copy = _second_copy(script, one.run.module, policy) if policy is not None else None
        if copy is None or copy.node in seen or copy.conditional or is_elsewhere(copy.node):
            continue
        advice = _reference_advice(script, policy) if policy is not None else None
        if advice is None:
            continue
        seen.add(copy.node)
        yield Finding(
            script.span(copy.node.func),
            "a second copy of the weights as reference, for the whole run of the loop",
            advise(advice),
        )


def _second_copy(script: Script, frozen: Value, policy: LoopModel) -> Call | None:
    """The call that made a frozen model of the policy's own weights; None for other models."""
    copy = script.copy_of(frozen)
    if copy is not None:
        return copy
    facts = script.model_facts(frozen)
    same = isinstance(facts.name, str) and facts.name and facts.name == policy.facts.name
    return facts.load if same else None


def _reference_advice(script: Script, policy: LoopModel) -> str | None:
    if policy.facts.peft:
        return "Score with `model.disable_adapter()`: the policy's base is the reference"
    if script.method_calls("generate") or script.imports_package("vllm"):
        return None
    return "Compute the reference's log-probabilities once, before training"


def frozen_models_with_autograd(script: Script) -> Iterator[Finding]:
    """References, teachers and reward models that a step runs with autograd on (MEM703)."""
    for one in script.frozen_passes:
        if one.run.gradients is True and not is_elsewhere(one.place):
            yield Finding(
                script.span(one.place),
                "a model that nothing trains runs in the training step with autograd on: its "
                "activations are kept for a gradient that nobody wants",
                advise("Run it under `torch.no_grad()`"),
            )


def _first_here(*nodes: ast.AST | None) -> ast.AST | None:
    """The first node that is of this file: those of other files have no place in it."""
    return next((node for node in nodes if node is not None and not is_elsewhere(node)), None)


__all__ = [
    "frozen_models_with_autograd",
    "larger_evaluation_loops",
    "references_of_loops",
]
