"""Forward passes as rules see them, one a place, all its runs joined; and the training steps that
run them.

An answer is None where the runs disagree or nobody can tell.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from memlint.engine.answers import agreed, any_of
from memlint.engine.forwards import Certainty, ForwardRun, has_small_head
from memlint.engine.growth import target_named
from memlint.engine.name_uses import Turn, is_loop, parameters
from memlint.engine.nodes import CallNode, Definition, Node, Statement
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Output, Positions, Tensor
from memlint.engine.usage import Usage, Way
from memlint.engine.values import (
    UNKNOWN,
    Binding,
    Invocation,
    Object,
    Symbol,
    Value,
    merge,
    options,
)
from memlint.flow.callables import FILLS
from memlint.flow.escapes import members_read
from memlint.flow.evaluated import query
from memlint.flow.events import EventKind, events_of, loops_of
from memlint.flow.following import uses_of
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.loaded_models import (
    LANGUAGE_MODELS,
    ModelFacts,
    is_language_model,
    loads_language_models_only,
    model_facts,
)
from memlint.script.owners import (
    LOGIT_SAVERS,
    owner_of_checkpointing,
    owner_of_loss,
    patching_calls_of,
)
from memlint.source import Span
from memlint.source.record import NamedTuple

_SETS = ("update", "setattr", "setdefault")  # of a dict and an object, beside what fills lists


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

    def __init__(self, script: Host, runs: list[ForwardRun]) -> None:
        self.script = script
        # What callers do is known where there are any.
        self.runs = [run for run in runs if not run.guessed] or runs
        self.node = runs[0].invocation.node

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
    def _is_headless(self) -> bool:
        """True if it is of a model's layers alone, and gives no logits."""
        return all(run.headless for run in self.runs)

    @property
    def gradients(self) -> bool | None:
        return agreed(run.gradients for run in self.runs)

    @property
    def records_gradients(self) -> bool:
        """True if autograd records it, by way of some caller at least, and no run is unsure."""
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
        """True if the model computes its own loss: it gets labels, or its loss is read."""
        if self.labels is None and "loss" not in self._fields_read:
            return not _giving_numbers(self.script).isdisjoint(self.runs)
        return self.labels is not False

    @property
    def reads_logits_alone(self) -> bool:
        """True if the script reads its logits, and definitely not its loss."""
        if not self.reads_logits or "loss" in self._fields_read:
            return False
        outputs = [run.output for run in self.runs if run.output is not None]
        return members_read(self.script, outputs) is not None

    @property
    def reads_logits(self) -> bool:
        """True if the script certainly reads its logits."""
        return "logits" in self._fields_read

    @property
    def _fields_read(self) -> set[str]:
        return {name for run in self.runs if run.output is not None for name in run.output.made}

    @property
    def called(self) -> bool:
        return any(run.called for run in self.runs)

    @property
    def autocast(self) -> str | None:
        """The dtype of the autocast that it certainly runs under, None for none or unknown."""
        found = (run.autocast for run in self.runs)
        return agreed(one.name if isinstance(one, Symbol) else None for one in found)

    @property
    def function(self) -> Node | None:
        return self.runs[0].function

    @cached_property
    def module(self) -> Value:
        """What is called, over all runs."""
        return merge([run.module for run in self.runs])

    @cached_property
    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return model_facts(self.script, self.module)

    @property
    def builds_cache(self) -> bool:
        """True if it definitely builds a key-value cache: a decoder whose load is in sight, and
        neither the load, the call, an attribute nor checkpointing turns the cache off."""
        script, facts = self.script, self.facts
        if self.own or facts.causal_lm is not True or script.sets("use_cache"):
            return False
        if any(load.setting("use_cache").given is not False for load in facts.loads):
            return False
        if owner_of_checkpointing(script, facts).on is not False:
            return False
        return self.option("use_cache") is True or "use_cache" not in self.call.keywords

    @cached_property
    def language_model(self) -> bool | None:
        """True if it is a language model, with logits as wide as a vocabulary.

        None where the script does not say. A model of which nothing is known is one where every
        model that the script loads is one and the script defines no modules.
        """
        if all(run.words or run.logits_kept is Positions.SOME for run in self.runs):
            # Only what has logits of words for every position is told how many of them to compute.
            return True
        values = [one for one in options(self.module) if isinstance(one, Object)]
        made = any(one.type is not None or one.cls is not None for one in values)
        answer = agreed(map(gives_vocabulary, self._loads)) if self._loads else None
        if answer or (self._loads and made):
            return answer
        if self.own or made:
            return None
        return True if self._is_taken_for_one else None

    @property
    def _is_taken_for_one(self) -> bool:
        """True if all models are language models, or it is a parameter whose annotation says so."""
        script = self.script
        if self.elsewhere or not script.imports_package("transformers"):
            return loads_language_models_only(script)
        functions, name = script.functions_around(self.node), self.called_as
        given = [one for function in functions for one in parameters(function) if one.arg == name]
        notes = [script.text(one.annotation) for one in given[:1] if one.annotation is not None]
        said = any(part in note for note in notes for part in LANGUAGE_MODELS)
        return said or loads_language_models_only(script)

    @cached_property
    def _loads(self) -> tuple[Call, ...]:
        """The loads of its model, whose head it keeps; where one caller is known and another not,
        those of the first: a fault of the first is one. Layers alone have no logits to be read."""
        if has_small_head(self.module):
            return ()
        each = (model_facts(self.script, run.module) for run in self.runs)
        loads = self.facts.loads or tuple(load for facts in each for load in facts.loads)
        bare = "transformers.AutoModel.from_pretrained" if self.reads_logits else None
        return tuple(one for one in loads if one.name != bare)

    @cached_property
    def gives_full_logits(self) -> bool | None:
        """True if it computes the logits of all positions over a vocabulary.

        None where the model is unknown, or something may replace its loss.
        """
        if not self.language_model or self._is_headless:
            return False if self._is_headless else self.language_model
        owner = owner_of_loss(self.script, self.facts)
        if owner.full_logits is not None or owner.call in patching_calls_of(self.script):
            return owner.full_logits
        return None if self.script.imports_package(*LOGIT_SAVERS) else True

    @property
    def steps(self) -> tuple[Step, ...]:
        """The training steps that run it."""
        return tuple(step for step in all_steps_of(self.script) if self in step.all_forwards)

    @property
    def in_training_step(self) -> bool:
        """True if a training step runs it: of a loop, or one that a trainer calls."""
        return bool(self.steps) or any(run.hook is not None for run in self.runs)

    @property
    def called_as(self) -> str:
        """What is called, as it is written: ``model`` for ``model.module.forward(...)``."""
        written = self.script.text(self.node.func)
        return written.removesuffix(".forward").removesuffix(".module")

    @property
    def in_training_loop(self) -> bool:
        """True if the loop of a training step runs it, in an evaluation within it too."""
        loops = {step.node for step in all_steps_of(self.script)}
        return any(not loops.isdisjoint(run.loops) for run in self.runs)

    @property
    def outlives_backward(self) -> bool:
        """True if a training step may hold what it returns during its backward pass.

        The names of a function that only computes the loss are gone by then.
        """
        use = self.script.use(self.node)
        field = use.way in (Way.READ, Way.METHOD) and use.name in ("loss", "logits")
        if field or use.way is Way.ITEM:
            return False  # one field alone is read, in the same expression
        function = self.script.function(self.node)
        return any(
            function is step.function
            or any(self.script.function(call.node) is function for call in step.backwards)
            or any(
                isinstance(value, Output) and value.forward.invocation.node is self.node
                for held in step.held
                for value in held.values
            )
            for step in self.steps
        )

    def option(self, name: str) -> object:
        """The Python value of an option of the call (``use_cache``), MISSING or UNSURE."""
        return self.call.setting(name).value

    @property
    def statement(self) -> Statement:
        return self.script.statement(self.node)


def gives_vocabulary(load: Call) -> bool | None:
    """True for language models, masked ones too; None for classes of which nothing is known."""
    if is_language_model(load) or "MaskedLM" in load.name or load.name == "whisper.load_model":
        return True
    return False if load.name.startswith("transformers.") else None


@query
def all_forwards_of(script: Host) -> tuple[Forward, ...]:
    """Forward passes, those in other files of the project too, which have no place here."""
    by_node: dict[CallNode, list[ForwardRun]] = defaultdict(list)
    for run in script._run.forwards:
        by_node[run.invocation.node].append(run)
    found = [Forward(script, group) for group in by_node.values()]
    return tuple(sorted(found, key=lambda forward: (forward.node.lineno, forward.node.col_offset)))


@query
def forwards_of(script: Host) -> tuple[Forward, ...]:
    """Forward passes of models, in source order: those in helpers, methods and wrappers too."""
    return tuple(one for one in all_forwards_of(script) if not one.elsewhere)


def forward_at(script: Host, node: Node | None) -> Forward | None:
    """The forward pass that a call is."""
    return next((one for one in all_forwards_of(script) if one.node is node), None)


def is_kept(script: Host, forward: Forward) -> bool:
    """True if a list, a dict or an object gets what a pass gives, or its logits."""

    def is_part(use: Usage) -> bool:
        return use.way in (Way.READ, Way.METHOD) and use.name in ("logits", "detach", "data")

    for use in uses_of(script, forward.node, is_part):
        at = script.use(use.around) if use.way is Way.HELD else use
        if at.way is Way.GIVEN and at.name in {*FILLS, *_SETS}:
            return True
        if at.way is Way.STORED and (at is not use or any(o.holder or o.item for o in at.places)):
            return True
    return False


def are_of_one_model(first: Forward, second: Forward) -> bool:
    """True if two forward passes certainly run the same model."""
    objects = set(map(id, first.facts.objects))
    return any(id(one) in objects for one in second.facts.objects)


# -- training steps --------------------------------------------------------------------------------


class Step:
    """A training step: one turn of the innermost loop around a backward pass, or of the method that
    a trainer runs backward with what it returns.

    node: the loop. backwards, forwards: those that it runs, in functions that it calls too.
    optimizer_steps: likewise; they may be in an outer loop (accumulation). Calls in
        other files of the project are left out.
    epochs: the loops around it, outermost first, those of callers included.
    """

    def __init__(self, script: Host, node: Turn, invocations: list[Invocation]) -> None:
        self.script = script
        self.node = node
        self._invocations = invocations

    def __repr__(self) -> str:
        return f"<step line {self.node.lineno}>"

    @cached_property
    def backwards(self) -> tuple[Call, ...]:
        return self.script._calls_of(self._invocations)

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """The forward passes of this file that a step runs, evaluation within it left out."""
        return tuple(one for one in self.all_forwards if not one.elsewhere)

    @cached_property
    def all_forwards(self) -> tuple[Forward, ...]:
        """Those in other files of the project too."""
        return tuple(
            forward
            for forward in all_forwards_of(self.script)
            if any(self.runs_it(run) for run in forward.runs)
        )

    def runs_it(self, run: ForwardRun) -> bool:
        """True if a step runs it itself, or in an inner loop that is not evaluation."""
        loops = loops_of(run.invocation)
        return self.node in loops and (loops[-1] is self.node or run.training is not False)

    @cached_property
    def epochs(self) -> tuple[Turn, ...]:
        return loops_of(self._invocations[0])[:-1] if self._invocations else ()

    @property
    def function(self) -> Definition | None:
        return self.script.function(self.node)

    @property
    def order(self) -> int | None:
        """The number of its first backward pass in the run; None where a trainer runs that."""
        return min((one.order for one in self._invocations), default=None)

    @cached_property
    def optimizer_steps(self) -> tuple[Call, ...]:
        return self.script._calls_of(updates_of(self))

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The names that it leaves bound to outputs or tensors when it ends, in source order."""
        script, loop = self.script, self.node
        ends = script.loop_ends(loop)
        names = dict.fromkeys(name for end in ends for name in end)
        found = (_held(script, loop, name, [end.get(name) for end in ends]) for name in names)
        return tuple(
            sorted(
                (one for one in found if one is not None),
                key=lambda one: (one.statement.lineno if one.statement else 0, one.name),
            )
        )


@query
def steps_of(script: Host) -> tuple[Step, ...]:
    """Training steps of hand-written loops, those whose backward is in a function too."""
    here = [one for one in all_steps_of(script) if not is_elsewhere(one.node)]
    return tuple(sorted(here, key=lambda step: script.span(step.node)))


@query
def handwritten_loops(script: Host) -> tuple[Step, ...]:
    """The training steps that run backward in this file: those of hand-written loops."""
    return tuple(step for step in steps_of(script) if step.backwards)


@query
def all_steps_of(script: Host) -> tuple[Step, ...]:
    """Training steps of other files of the project too, which have no place here."""
    by_loop: dict[Turn, list[Invocation]] = defaultdict(list)
    for event in events_of(script):
        if event.kind is EventKind.BACKWARD:
            loops = loops_of(event.invocation)
            if loops:
                by_loop[loops[-1]].append(event.invocation)
    backwards = {loop for each in by_loop.values() for one in each for loop in loops_of(one)}
    for run in script._run.forwards:
        for loop in loops_of(run.invocation)[:1]:
            if not is_loop(loop) and loop not in backwards:
                by_loop[loop] = []
    return tuple(Step(script, node, invocations) for node, invocations in by_loop.items())


def updates_of(step: Step) -> list[Invocation]:
    """The steps of optimizers in a step, or in a loop around it, in any file."""
    loops, events = {step.node, *step.epochs}, events_of(step.script)
    steps = [one.invocation for one in events if one.kind is EventKind.OPTIMIZER_STEP]
    return [one for one in steps if not loops.isdisjoint(loops_of(one))]


def optimizers_of(step: Step) -> list[Node]:
    """The calls that make what the steps of optimizers in a step update."""
    made = (one for update in updates_of(step) for one in options(update.receiver or UNKNOWN))
    nodes = (one.root.node for one in made if isinstance(one, Object))
    return [node for node in nodes if isinstance(node, CallNode)]


class Held(NamedTuple):
    """A name that a step leaves bound to outputs or tensors.

    values: what it may hold then. statement: what binds it, None where several do.
    place: the node to point at: the name where one statement binds it, else what makes a value.
    holds_logits: whether it may keep something as large as a language model's logits alive; None
        where it is not known whether the model is one, or whether its logits are computed.
    """

    name: str
    values: tuple[Output | Tensor, ...]
    statement: Statement | None
    holds_logits: bool | None
    place: Node


def _held(script: Host, loop: Turn, name: str, ends: list[Binding | None]) -> Held | None:
    """What a name may hold at the end of a turn; None where it holds no output and no tensor.

    ends: what each run of a turn leaves under it.
    """
    known = [*filter(None, ends)]
    every = (one for binding in known for one in options(binding.value))
    values = tuple(one for one in every if isinstance(one, Output | Tensor))
    if not values:
        return None
    owners = {binding.owner for binding in known}
    owner = owners.pop() if len(owners) == 1 else None
    statement = owner if isinstance(owner, Statement) else None
    made = None if is_elsewhere(values[0].node) else values[0].node
    return Held(
        name,
        values,
        statement,
        holds_logits=any_of(_holds_logits(script, value) for value in values),
        place=target_named(statement, name) or statement or made or loop,
    )


@query
def _giving_numbers(script: Host) -> frozenset[ForwardRun | None]:
    """The passes whose ``outputs[0]`` is a number that backward starts from: the loss."""
    numbers = (
        tensor
        for tensor, operation, _ in script._run.tensor_uses
        if operation.rpartition(".")[2] in ("backward", "item")
    )
    parts = ([*tensor.history()] for tensor in numbers)
    return frozenset(
        first.forward
        for *after, first in parts
        if first.operation == "[]" and {one.operation for one in after} <= {"arithmetic", "detach"}
    )


def _holds_logits(script: Host, value: Output | Tensor) -> bool | None:
    """True if a value keeps the logits of all positions, or a copy of them."""
    if isinstance(value, Tensor) and not (value.as_large_as_logits or _views_large(value)):
        return False
    if value.forward is None:
        return None
    forward = forward_at(script, value.forward.invocation.node)
    if forward is None:
        return None
    read = isinstance(value, Tensor) or bool(value.made)
    if forward.certainty is not Certainty.DEFINITE and not read:
        # Nothing reads a field of what comes back: it may be no model's output.
        return None
    by_head = value.forward.headless and isinstance(value, Tensor)
    return forward.language_model if by_head else forward.gives_full_logits


def _views_large(tensor: Tensor) -> bool:
    """True if a slice keeps the whole of what it is a view of."""
    return tensor.copy is False and any(
        source.as_large_as_logits or _views_large(source) for source in tensor.sources
    )
