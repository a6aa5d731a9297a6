"""What rows are read for: training, evaluation or inference.

A purpose follows from use, not from a name: a column called ``train_text`` trains nothing, and
prompts that only ``generate`` reads need no collator. Data sets that a trainer or a loader reads
are followed by value. Where rows go otherwise is read off the code around them; a use that is out
of sight leaves the purpose unknown.
"""

from collections.abc import Iterator
from enum import StrEnum

from memlint.engine.nodes import CallNode, Node
from memlint.engine.project import is_elsewhere
from memlint.engine.values import UNKNOWN, Object, Value, options
from memlint.flow.events import EventKind, events_of, loops_of
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.forward_passes import all_forwards_of, all_steps_of


def tests_of(script: Host) -> list[Node]:
    """Return the functions that nothing calls but a runner of tests, which knows them by name."""
    return [
        node
        for node, runs in script._run.runs.items()
        if not runs and getattr(node, "name", "").startswith("test_") and not is_elsewhere(node)
    ]


class Purpose(StrEnum):
    """What a data set is read for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    INFERENCE = "inference"
    UNKNOWN = "unknown"


# Methods by which Lightning gets its data loaders.
_LOADERS = {
    "train_dataloader": Purpose.TRAINING,
    "val_dataloader": Purpose.EVALUATION,
    "test_dataloader": Purpose.EVALUATION,
    "predict_dataloader": Purpose.INFERENCE,
}

_FITTED = ("train_dataloaders", "val_dataloaders")

# -- readers of data loaders -----------------------------------------------------------------------


def purpose_of_loader(script: Host, loader: Call) -> Purpose:
    """What a data loader is read for, by the loops that read it, where that is one thing."""
    found = purposes_of_loader(script, loader)
    return next(iter(found)) if len(found) == 1 else Purpose.UNKNOWN


def purposes_of_loader(script: Host, loader: Call) -> frozenset[Purpose]:
    """All that a data loader is read for, by the loops that read it; by Lightning's trainer, where
    the method that makes it is one that Lightning calls."""
    found = {purpose_of_loop(script, loop) for loop in _readers(script, loader)}
    if script.imports_package("lightning", "pytorch_lightning"):
        makers = (getattr(one.function, "name", "") for one in loader.invocations)
        found.update(_LOADERS.get(name) for name in makers)
        found.update(_fitted(script, loader))
    return frozenset(purpose for purpose in found if purpose is not None)


def _fitted(script: Host, loader: Call) -> Iterator[Purpose]:
    """What Lightning's trainer reads a loader for: ``trainer.fit(module, learned, held_out)``."""
    for call in script.method_calls_anywhere("fit"):
        runners = [getattr(one, "type", None) or "" for one in options(call.receiver or UNKNOWN)]
        if all(one.endswith(".Trainer") for one in runners):
            given = (*map(call.argument, (1, 2)), *(call.setting(one).raw for one in _FITTED))
            purposes = (Purpose.TRAINING, Purpose.EVALUATION) * 2
            for value, purpose in zip(given, purposes, strict=True):
                if _comes_from(value, loader.node):
                    yield purpose


def _readers(script: Host, loader: Call) -> Iterator[Node]:
    """The loops that read a data loader, directly or through ``enumerate``, ``tqdm``, ``next``."""
    for loop, iterated in (*script.iterations, *script.iterations_elsewhere):
        if _comes_from(script.value(iterated), loader.node):
            yield loop
    for call in script.calls_anywhere("next"):
        if _comes_from(call.argument(0), loader.node):
            for invocation in call.invocations:
                yield from loops_of(invocation)[-1:]


def _comes_from(value: Value, loader: CallNode, depth: int = 4) -> bool:
    for one in options(value):
        if isinstance(one, Object) and one.made_by is not None:
            if one.made_by.node is loader:
                return True
            if depth and one.type is None:
                given = one.made_by.arguments
                if any(_comes_from(part, loader, depth - 1) for part in given):
                    return True
    return False


def purpose_of_loop(script: Host, loop: Node) -> Purpose | None:
    """What a loop reads batches for; None where nothing in it is known."""
    for step in all_steps_of(script):
        if loop is step.node or loop in step.epochs:
            return Purpose.TRAINING
    generates = any(
        loop in event.loops and event.kind is EventKind.GENERATE for event in events_of(script)
    )
    inside = [one for one in all_forwards_of(script) if any(loop in run.loops for run in one.runs)]
    if generates and not inside:
        return Purpose.INFERENCE
    if any(one.gradients is False or one.training is False for one in inside):
        return Purpose.EVALUATION
    return Purpose.EVALUATION if inside else None
