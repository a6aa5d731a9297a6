"""What a script does in training, in order: forwards, backwards, steps, and what outlives a step.

The views that rules read. All are joined over the runs of a place: an answer is None where the runs
disagree or nobody can tell.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memlint.script.answers import agreed, any_of
from memlint.script.calls import Call
from memlint.script.checkpoints import ModelFacts, is_language_model
from memlint.script.forwards import Certainty, ForwardRun
from memlint.script.invocations import Record
from memlint.script.owners import LOGIT_SAVERS
from memlint.script.project import is_elsewhere
from memlint.script.tensors import Output, Tensor
from memlint.script.values import (
    Absent,
    Object,
    Slot,
    Symbol,
    Value,
    merge,
    options,
)
from memlint.source import Span

if TYPE_CHECKING:
    from memlint.script.model import Script

Loop = ast.For | ast.AsyncFor | ast.While

CLASSIFIERS = (
    *("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice"),
)


class Forward:
    """One place where a model runs forward.

    certainty: whether it certainly is a module's forward pass.
    own: the module is of a class of the script, whose ``forward`` is followed.
    gradients: whether autograd records it: False under ``no_grad`` and its like in this function
        or any caller; None where an unknown context or flag decides.
    training: False after ``eval()``, True after ``train()``, None where the script does not say.
    labels: whether labels are given. called: whether the script reaches it from its top.
    elsewhere: whether it is in another file of the project, and so has no place in this one.
    """

    def __init__(self, script: Script, runs: list[ForwardRun]) -> None:
        self.script = script
        # What callers do is known where there are any.
        self.runs = [run for run in runs if not run.guessed] or runs
        self.node = runs[0].record.node

    def __repr__(self) -> str:
        return f"<forward line {self.node.lineno}>"

    @property
    def call(self) -> Call:
        call = self.script.call_anywhere(self.node)
        assert call is not None, "a forward pass is a call that was recorded"
        return call

    @property
    def span(self) -> Span:
        return self.script.span(self.node)

    @property
    def elsewhere(self) -> bool:
        return is_elsewhere(self.node)

    @property
    def certainty(self) -> Certainty:
        definite = all(run.certainty is Certainty.DEFINITE for run in self.runs)
        return Certainty.DEFINITE if definite else Certainty.POSSIBLE

    @property
    def own(self) -> bool:
        return any(run.own for run in self.runs)

    @property
    def gradients(self) -> bool | None:
        return agreed(run.gradients for run in self.runs)

    @property
    def records_gradients(self) -> bool:
        """Whether autograd records it, by way of some caller at least, and no run is unsure."""
        answers = {run.gradients for run in self.runs}
        return True in answers and None not in answers

    @property
    def training(self) -> bool | None:
        return agreed(run.training for run in self.runs)

    @property
    def labels(self) -> bool | None:
        return agreed(run.labels for run in self.runs)

    @property
    def computes_loss(self) -> bool:
        """Whether the model computes its own loss: it gets labels, or its loss is read."""
        read = any(run.output is not None and "loss" in run.output.made for run in self.runs)
        return self.labels is True or (self.labels is not False and read)

    @property
    def called(self) -> bool:
        return any(run.called for run in self.runs)

    @property
    def autocast(self) -> str | None:
        """The dtype of the autocast that it certainly runs under, None for none or unknown."""
        names = {
            run.autocast.name if isinstance(run.autocast, Symbol) else None for run in self.runs
        }
        return names.pop() if len(names) == 1 else None

    @property
    def function(self) -> ast.AST | None:
        return self.runs[0].function

    @cached_property
    def module(self) -> Value:
        """What is called, over all runs."""
        return merge([run.module for run in self.runs])

    @cached_property
    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return self.script.model_facts(self.module)

    @property
    def builds_cache(self) -> bool:
        """Whether it definitely builds a key-value cache: a decoder whose load is in sight, and
        neither the load, the call, an attribute nor checkpointing turns the cache off."""
        script, facts = self.script, self.facts
        if self.own or facts.causal_lm is not True or script.says(".use_cache"):
            return False
        if any(load.setting("use_cache").given is not False for load in facts.loads):
            return False
        if script.owner_of_checkpointing(facts).on is not False:
            return False
        return self.option("use_cache") is True or "use_cache" not in self.call.keywords

    @cached_property
    def language_model(self) -> bool | None:
        """Whether it is a language model, with logits as wide as a vocabulary.

        None where the script does not say. A model of which nothing is known is one where every
        model that the script loads is one and the script defines no modules.
        """
        values = [one for one in options(self.module) if isinstance(one, Object)]
        made = any(one.type is not None or one.cls is not None for one in values)
        if self.facts.loads and made:
            return agreed(gives_vocabulary(load) for load in self.facts.loads)
        if self.own or made:
            return None
        return True if self.script.loads_language_models_only else None

    @cached_property
    def gives_full_logits(self) -> bool | None:
        """Whether it computes the logits of all positions over a vocabulary.

        None where the model is unknown, or something may replace its loss.
        """
        if not self.language_model:
            return self.language_model
        owner = self.script.owner_of_loss(self.facts)
        if owner.full_logits is not None or owner.call in self.script.patching_calls:
            return owner.full_logits
        return None if self.script.imports_package(*LOGIT_SAVERS) else True

    @property
    def steps(self) -> tuple[Step, ...]:
        """The training steps that run it."""
        return tuple(step for step in self.script.steps if self in step.all_forwards)

    @property
    def in_training_step(self) -> bool:
        return bool(self.steps)

    @property
    def called_as(self) -> str:
        """What is called, as it is written: ``model`` for ``model.module.forward(...)``."""
        written = self.script.text(self.node.func)
        return written.removesuffix(".forward").removesuffix(".module")

    @property
    def in_training_loop(self) -> bool:
        """Whether the loop of a training step runs it, in an evaluation within it too."""
        loops = {step.node for step in self.script.steps}
        return any(not loops.isdisjoint(run.loops) for run in self.runs)

    @property
    def is_read_at_once(self) -> bool:
        """Whether one field of what it returns is read in the same expression, and nothing else:
        ``model(**batch).loss``."""
        parent = self.script.parent(self.node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("loss", "logits")
        return isinstance(parent, ast.Subscript) and parent.value is self.node

    @property
    def outlives_backward(self) -> bool:
        """Whether a training step may hold what it returns during its backward pass.

        The names of a function that only computes the loss are gone by then.
        """
        if self.is_read_at_once:
            return False
        function = self.script.function(self.node)
        return any(
            function is step.function
            or any(self.script.function(call.node) is function for call in step.backwards)
            or any(self._returns(value) for held in step.held for value in held.values)
            for step in self.steps
        )

    def _returns(self, value: Output | Tensor) -> bool:
        run = value.forward if isinstance(value, Output) else None
        return run is not None and run.record.node is self.node

    def option(self, name: str) -> object:
        """The Python value of an option of the call (``use_cache``), MISSING or UNSURE."""
        return self.call.setting(name).value

    @property
    def statement(self) -> ast.stmt:
        return self.script.statement(self.node)


def gives_vocabulary(load: Call) -> bool | None:
    """``is_language_model``; None for classes of which nothing is known."""
    if is_language_model(load):
        return True
    return False if load.name.startswith("transformers.") else None


class Held(NamedTuple):
    """A name that a step leaves bound to outputs or tensors.

    values: what it may hold then. statement: what binds it, None where several do.
    place: the node to point at: the name where one statement binds it, else what makes a value.
    sure: whether every path through the step leaves it bound to such a value.
    holds_logits: whether it may keep something as large as a language model's logits alive; None
        where it is not known whether the model is one, or whether its logits are computed.
    """

    name: str
    values: tuple[Output | Tensor, ...]
    statement: ast.stmt | None
    sure: bool
    holds_logits: bool | None
    place: ast.AST


def _holds_logits(script: Script, value: Output | Tensor) -> bool | None:
    """Whether a value keeps the logits of all positions, or a copy of them."""
    if isinstance(value, Tensor) and not (value.as_large_as_logits or _views_large(value)):
        return False
    if value.forward is None:
        return None
    forward = script.forward_at(value.forward.record.node)
    if forward is None:
        return None
    read = isinstance(value, Tensor) or bool(value.made)
    if forward.certainty is not Certainty.DEFINITE and not read:
        # Nothing reads a field of what comes back: it may be no model's output.
        return None
    return forward.gives_full_logits


def _views_large(tensor: Tensor) -> bool:
    """Whether a slice keeps the whole of what it is a view of."""
    return tensor.copy is False and any(
        source.as_large_as_logits or _views_large(source) for source in tensor.sources
    )


class Step:
    """A training step: one turn of the innermost loop around a backward pass.

    node: the loop. backwards, forwards: those that it runs, in functions that it calls too.
    optimizer_steps, zero_grads: likewise; they may be in an outer loop (accumulation). Calls in
        other files of the project are left out.
    epochs: the loops around it, outermost first, those of callers included.
    """

    def __init__(self, script: Script, node: Loop, records: list[Record]) -> None:
        self.script = script
        self.node = node
        self._records = records

    def __repr__(self) -> str:
        return f"<step line {self.node.lineno}>"

    @cached_property
    def backwards(self) -> tuple[Call, ...]:
        return self.script.calls_of(self._records)

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """The forward passes of this file that a step runs, evaluation within it left out."""
        return tuple(one for one in self.all_forwards if not one.elsewhere)

    @cached_property
    def all_forwards(self) -> tuple[Forward, ...]:
        """Those in other files of the project too."""
        return tuple(
            forward
            for forward in self.script.all_forwards
            if any(self.runs_it(run) for run in forward.runs)
        )

    def runs_it(self, run: ForwardRun) -> bool:
        """Whether a step runs it itself, or in an inner loop that is not evaluation."""
        loops = _loops(run.record)
        if self.node not in loops:
            return False
        return loops[-1] is self.node or run.training is not False

    @cached_property
    def epochs(self) -> tuple[Loop, ...]:
        return _loops(self._records[0])[:-1]

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        return self.script.function(self.node)

    @cached_property
    def optimizer_steps(self) -> tuple[Call, ...]:
        return self._calls(EventKind.OPTIMIZER_STEP)

    @cached_property
    def zero_grads(self) -> tuple[Call, ...]:
        return self._calls(EventKind.ZERO_GRAD)

    def _calls(self, kind: EventKind) -> tuple[Call, ...]:
        """The calls of a kind in this loop or one around it."""
        loops = {self.node, *self.epochs}
        return self.script.calls_of(
            [
                event.record
                for event in self.script.events
                if event.kind is kind and not loops.isdisjoint(_loops(event.record))
            ]
        )

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The names that a step leaves bound to outputs or tensors when it ends."""
        return held_after(self.script, self.node)


def _loops(record: Record) -> tuple[Loop, ...]:
    return tuple(one for one in record.loops if isinstance(one, ast.For | ast.AsyncFor | ast.While))


def steps_of(script: Script) -> tuple[Step, ...]:
    """The training steps of the script's own loops, in source order."""
    by_loop: dict[Loop, list[Record]] = defaultdict(list)
    for event in script.events:
        if event.kind is EventKind.BACKWARD:
            loops = _loops(event.record)
            if loops and not is_elsewhere(loops[-1]):
                by_loop[loops[-1]].append(event.record)
    found = [Step(script, node, records) for node, records in by_loop.items()]
    return tuple(sorted(found, key=lambda step: script.span(step.node)))


def held_after(script: Script, loop: Loop) -> tuple[Held, ...]:
    """The names that one turn of a loop leaves bound to outputs or tensors, in source order."""
    ends = script.loop_ends(loop)
    names = dict.fromkeys(name for end in ends for name in end)
    found = [_held(script, loop, name, [end.get(name) for end in ends]) for name in names]
    return tuple(
        sorted(
            (one for one in found if one is not None),
            key=lambda one: (one.statement.lineno if one.statement else 0, one.name),
        )
    )


def _held(script: Script, loop: Loop, name: str, ends: list[Slot | None]) -> Held | None:
    """What a name may hold at the end of a turn; None where it holds no output and no tensor.

    ends: what each run of a turn leaves under it.
    """
    known = [slot for slot in ends if slot is not None]
    every = [one for slot in known for one in options(slot.value)]
    values = tuple(one for one in every if isinstance(one, Output | Tensor))
    if not values:
        return None
    owners = {slot.owner for slot in known}
    owner = owners.pop() if len(owners) == 1 else None
    statement = owner if isinstance(owner, ast.stmt) else None
    return Held(
        name,
        values,
        statement,
        sure=len(values) == len(every) and len(known) == len(ends),
        holds_logits=any_of(_holds_logits(script, value) for value in values),
        place=_binding(statement, name) or _maker(values[0]) or loop,
    )


def _binding(statement: ast.stmt | None, name: str) -> ast.AST | None:
    """The name in the targets of a statement."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets += statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets.append(statement.target)
    for target in targets:  # grows meanwhile
        if isinstance(target, ast.Name) and target.id == name:
            return target
        targets += getattr(target, "elts", [])
    return statement


def _maker(value: Output | Tensor) -> ast.AST | None:
    """The expression that makes a value, where it is in this file."""
    node: ast.AST | None = value.node
    return None if node is None or is_elsewhere(node) else node


def forwards_of(script: Script, runs: list[ForwardRun]) -> tuple[Forward, ...]:
    """Forward passes, one a place, in source order."""
    by_node: dict[ast.Call, list[ForwardRun]] = defaultdict(list)
    for run in runs:
        by_node[run.record.node].append(run)
    found = [Forward(script, group) for group in by_node.values()]
    return tuple(sorted(found, key=lambda forward: (forward.node.lineno, forward.node.col_offset)))


# -- events ----------------------------------------------------------------------------------------


class EventKind(StrEnum):
    LOAD = "load"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer step"
    ZERO_GRAD = "zero grad"
    GENERATE = "generate"
    EVALUATE = "evaluate"
    TRAIN = "train"
    KEEP = "keep"
    SAVE = "save"
    MERGE = "merge"


class Event(NamedTuple):
    """Something that happens in training. Events are in the order of the run.

    record: the call, as it was evaluated this time. loops: those around it, outermost first.
    """

    kind: EventKind
    record: Record

    @property
    def node(self) -> ast.Call:
        return self.record.node

    @property
    def loops(self) -> tuple[ast.AST, ...]:
        return self.record.loops

    @property
    def order(self) -> int:
        return self.record.order


_BY_METHOD = {
    "backward": EventKind.BACKWARD,
    "manual_backward": EventKind.BACKWARD,
    "zero_grad": EventKind.ZERO_GRAD,
    "generate": EventKind.GENERATE,
    "evaluate": EventKind.EVALUATE,
    "predict": EventKind.EVALUATE,
    "save_pretrained": EventKind.SAVE,
    "save_model": EventKind.SAVE,
    "save_state": EventKind.SAVE,
    "save_checkpoint": EventKind.SAVE,
    "merge_and_unload": EventKind.MERGE,
    "merge_adapter": EventKind.MERGE,
    "from_pretrained": EventKind.LOAD,
}
_BY_NAME = {"torch.save": EventKind.SAVE, "torch.load": EventKind.LOAD}
_KEEPING = frozenset({"append", "extend", "add", "insert", "appendleft"})
_NOT_OPTIMIZERS = ("sched", "prof", "lr", "env", "progress", "pbar", "tracker", "timer")


def events_of(script: Script, records: list[Record], runs: list[ForwardRun]) -> tuple[Event, ...]:
    passes = {id(run.record) for run in runs}
    found: list[Event] = []
    for record in records:
        kind = _kind(record, passes)
        if kind is not None and isinstance(record.node, ast.Call):
            found.append(Event(kind, record))
    return tuple(sorted(found, key=lambda event: event.order))


def _kind(record: Record, passes: set[int]) -> EventKind | None:
    if id(record) in passes:
        return EventKind.FORWARD
    head, _, method = record.name.rpartition(".")
    known = _BY_NAME.get(record.name)
    if known is not None or not head:
        return known
    if method == "step":
        return EventKind.OPTIMIZER_STEP if _steps_optimizer(record) else None
    if method == "train":
        return EventKind.TRAIN if "Trainer" in head else None
    if method in _KEEPING:
        given = [one for value in record.arguments for one in options(value)]
        return EventKind.KEEP if any(isinstance(one, Output | Tensor) for one in given) else None
    return _BY_METHOD.get(method)


def _steps_optimizer(record: Record) -> bool:
    func = record.node.func
    if not isinstance(func, ast.Attribute):
        return False
    kind = record.receiver.type if isinstance(record.receiver, Object) else None
    if kind is not None:
        return "lr_scheduler" not in kind and "profiler" not in kind
    name = func.value.attr if isinstance(func.value, ast.Attribute) else ""
    name = name or getattr(func.value, "id", "")
    return not any(part in name.lower() for part in _NOT_OPTIMIZERS)


class Kept(NamedTuple):
    """Tensors that a loop appends to what outlives its turn.

    call: the ``append``. container: the name that it is called on. loop: the innermost around it.
    """

    call: Call
    container: str
    tensors: tuple[Tensor, ...]
    loop: Loop


def kept_of(script: Script) -> tuple[Kept, ...]:
    """Every ``losses.append(loss)`` in a loop that does not make the list itself."""
    found: dict[ast.Call, Kept] = {}
    for event in script.events:
        func = event.node.func
        loops = _loops(event.record)
        if event.kind is not EventKind.KEEP or not loops or not isinstance(func, ast.Attribute):
            continue
        if is_elsewhere(func):
            continue
        container = script.text(func.value)
        loop = loops[-1]
        if isinstance(func.value, ast.Name) and _bound_in(loop, func.value.id):
            continue
        given = [one for value in event.record.arguments for one in options(value)]
        call = script.call_at(event.node)
        if call is not None:
            tensors = tuple(one for one in given if isinstance(one, Tensor))
            found.setdefault(event.node, Kept(call, container, tensors, loop))
    return tuple(found.values())


def _bound_in(loop: Loop, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(loop)
    )


def known_tensors(value: Value) -> tuple[Tensor, ...]:
    """The tensors that a value may be; empty where it may be something else, too."""
    found = [one for one in options(value) if not isinstance(one, Absent)]
    tensors = tuple(one for one in found if isinstance(one, Tensor))
    return tensors if len(tensors) == len(found) else ()
