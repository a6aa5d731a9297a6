"""What a script does with a trainer: train, or only evaluate, predict and save.

A trainer that definitely never trains has no activations to keep, no gradients and no optimizer:
what rules report of training is not its fault. Whatever is unknown counts as training.
"""

from collections.abc import Iterable, Iterator

from memlint.engine.nodes import Node
from memlint.engine.values import Invocation, Object, Sequence, Value, options
from memlint.script.called import Call
from memlint.source.record import NamedTuple

# Methods of trainers after which nothing has been learned.
WITHOUT_TRAINING = frozenset(
    {
        *("evaluate", "predict", "evaluation_loop", "prediction_loop", "prediction_step"),
        *("get_eval_dataloader", "get_test_dataloader", "save_model", "save_metrics", "save_state"),
        *("log", "log_metrics", "metrics_format", "push_to_hub", "create_model_card"),
        *("is_world_process_zero", "is_local_process_zero", "add_callback"),
        *("remove_callback", "pop_callback"),
    }
)
_EVALUATES = frozenset({"evaluate", "predict", "evaluation_loop", "prediction_loop"})
# What is handed a trainer and does not train it.
_HARMLESS = frozenset({"print", "type", "repr", "str", "id", "isinstance", "hasattr", "del"})


class TrainerUse(NamedTuple):
    """A call on a trainer (``on``), or one that is handed it."""

    invocation: Invocation
    on: bool


def uses_by_trainer(
    trainers: Iterable[Call], invocations: Iterable[Invocation]
) -> dict[Node, list[TrainerUse]]:
    """The uses of each trainer, by the call that makes it, in one pass over all calls."""
    found: dict[Node, list[TrainerUse]] = {trainer.node: [] for trainer in trainers}
    for invocation in invocations:
        given = (
            *invocation.arguments,
            *(binding.value for binding in invocation.keywords.values()),
        )
        on = set(_made_by(invocation.receiver)) if invocation.receiver is not None else set()
        for node in (on & found.keys()) - {invocation.node}:
            found[node].append(TrainerUse(invocation, True))
        if given and invocation.name not in _HARMLESS:
            nodes = {one for value in given for one in _made_by(value) if one in found}
            for node in nodes - on - {invocation.node}:
                found[node].append(TrainerUse(invocation, False))
    return found


def may_train(trainer: Call, uses: Iterable[TrainerUse], trains: tuple[Call, ...]) -> bool:
    """True if anything may train ``trainer``; False only where the script definitely does not.

    uses: of the trainer. trains: the script's calls of methods named ``train``.
    """
    if _may_be_on(trainer, trains):
        return True
    methods: set[str] = set()
    for invocation, on in uses:
        if not on:
            return True
        methods.add(invocation.name.rpartition(".")[2])
    return not methods <= WITHOUT_TRAINING or not methods & _EVALUATES


def _may_be_on(trainer: Call, trains: tuple[Call, ...]) -> bool:
    """True if one of the calls of ``train`` is on the trainer, or on something unknown."""
    for call in trains:
        for one in options(call.receiver) if call.receiver is not None else (None,):
            if not (isinstance(one, Object) and one.type) or one.node is trainer.node:
                return True
    return False


def _made_by(value: Value) -> Iterator[Node]:
    """The calls that may have made a value, or an item of a list."""
    for one in options(value):
        items = one.items if isinstance(one, Sequence) else (one,)
        for item in items:
            for made in options(item):
                if isinstance(made, Object) and made.node is not None:
                    yield made.node
