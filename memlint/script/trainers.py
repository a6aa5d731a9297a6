"""What a script does with a trainer: train, or only evaluate, predict and save.

A trainer that definitely never trains has no activations to keep, no gradients and no optimizer:
what rules report of training is not its fault. Whatever is unknown counts as training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from memlint.script.values import Object, Sequence, Value, options

if TYPE_CHECKING:
    from memlint.script.calls import Call, Trainer
    from memlint.script.invocations import Record

# Methods of trainers after which nothing has been learned.
_WITHOUT_TRAINING = frozenset(
    {
        "evaluate",
        "predict",
        "evaluation_loop",
        "prediction_loop",
        "prediction_step",
        "get_eval_dataloader",
        "get_test_dataloader",
        "save_model",
        "save_metrics",
        "save_state",
        "log",
        "log_metrics",
        "metrics_format",
        "push_to_hub",
        "create_model_card",
        "is_world_process_zero",
        "is_local_process_zero",
        "add_callback",
        "remove_callback",
        "pop_callback",
    }
)
_EVALUATES = frozenset({"evaluate", "predict", "evaluation_loop", "prediction_loop"})
# What is handed a trainer and does not train it.
_HARMLESS = frozenset({"print", "type", "repr", "str", "id", "isinstance", "hasattr", "del"})


def may_train(trainer: Trainer, records: Iterable[Record], trains: tuple[Call, ...]) -> bool:
    """Whether anything may train ``trainer``; False only where the script definitely does not.

    records: every call of the script. trains: its calls of methods named ``train``.
    """
    if _may_be_on(trainer, trains):
        return True
    methods: set[str] = set()
    for record in records:
        if record.node is trainer.node:
            continue
        if record.receiver is not None and _is_one(trainer, record.receiver):
            methods.add(record.name.rpartition(".")[2])
        elif record.name not in _HARMLESS and any(
            _is_one(trainer, value) for value in _arguments(record)
        ):
            return True
    if not methods <= _WITHOUT_TRAINING:
        return True
    return not methods & _EVALUATES


def _may_be_on(trainer: Trainer, trains: tuple[Call, ...]) -> bool:
    """Whether one of the calls of ``train`` is on the trainer, or on something unknown."""
    for call in trains:
        receiver = call.receiver
        if receiver is None or _is_one(trainer, receiver):
            return True
        if not all(isinstance(one, Object) and one.type for one in options(receiver)):
            return True
    return False


def _arguments(record: Record) -> Iterator[Value]:
    for value in (*record.arguments, *(slot.value for slot in record.keywords.values())):
        yield value
        if isinstance(value, Sequence):
            yield from value.items


def _is_one(trainer: Trainer, value: Value) -> bool:
    """Whether ``value`` may be an object that the trainer's call made."""
    return any(isinstance(one, Object) and one.node is trainer.node for one in options(value))
