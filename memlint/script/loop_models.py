"""Language models that the script's own loops train: what trainers know of theirs, for loops."""

import ast
from collections.abc import Callable, Iterable, Iterator

from memlint.engine.forwards import Certainty, ForwardRun
from memlint.engine.modes import module_root
from memlint.engine.nodes import Node, holder_of
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import tensors_in
from memlint.engine.usage import Way
from memlint.engine.values import ABSENT, Constant, Object, options
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.evaluation import frozen_modules_of
from memlint.script.forward_passes import (
    Forward,
    Step,
    all_forwards_of,
    all_steps_of,
    optimizers_of,
    steps_of,
)
from memlint.script.loaded_models import ModelFacts, is_about, model_facts
from memlint.source.record import NamedTuple


class LoopModel(NamedTuple):
    """A model that a training step trains.

    load: the call that loads it, in any file of the project; the first where several paths load it,
        of this file if there is one, as ``facts.load`` is None then. forwards: the passes of the
        step that train it.
    """

    load: Call
    facts: ModelFacts
    forwards: tuple[Forward, ...]
    runs: tuple[ForwardRun, ...]
    step: Step

    @property
    def root(self) -> int | None:
        """The module itself, however it is wrapped."""
        found = options(self.runs[0].module)
        return id(module_root(found[0])) if isinstance(found[0], Object) else None

    @property
    def in_evaluation_mode(self) -> bool:
        """True if it may be trained in evaluation mode, in which nothing is checkpointed."""
        return any(run.training is False for run in self.runs)

    @property
    def in_training_mode(self) -> bool:
        """True if it is definitely put into training mode, in which no load leaves it."""
        return all(run.training is True for run in self.runs)

    @property
    def without_autocast(self) -> bool:
        """True if no pass of the step can be under autocast."""
        return all(run.autocast is None or run.autocast is ABSENT for run in self.runs)


@query
def own_models_of(script: Host) -> tuple[LoopModel, ...]:
    """The language models that the script defines and trains in steps of its own. load: what makes
    one, in another file where only what runs it is here."""
    found: dict[object, LoopModel] = {}
    for step in all_steps_of(script):
        for forward in step.all_forwards:
            runs = tuple(one for one in forward.runs if one.words and _records(script, one))
            for root in (module_root(one.module) for one in runs):
                made = script.call_anywhere(root.node) if isinstance(root, Object) else None
                if made is not None and not (forward.elsewhere and is_elsewhere(made.node)):
                    facts = model_facts(script, runs[0].module)
                    found[made.node] = LoopModel(made, facts, (forward,), runs, step)
    return tuple(found.values())


@query
def loop_models_of(script: Host) -> tuple[LoopModel, ...]:
    """The language models that the script's own loops train, in the order of their loads."""
    return _joined(model for model in _trained_passes(script) if model.facts.is_stack_of_layers)


@query
def loop_encoders_of(script: Host) -> tuple[LoopModel, ...]:
    """The encoders that the script's own loops train: with a head, or stored in float32."""
    found = (one for one in _trained_passes(script) if not one.facts.is_stack_of_layers)
    stored = "stored_float32"
    return _joined(one for one in found if one.facts.is_encoder or one.facts.family.has(stored))


def _joined(models: Iterable[LoopModel]) -> tuple[LoopModel, ...]:
    """One for each load, in the order of these, with all its passes."""
    found: dict[object, LoopModel] = {}
    for model in models:
        before = found.get(model.load.node)
        if before is not None:
            forwards = dict.fromkeys((*before.forwards, *model.forwards))
            runs = _of_trained((*before.runs, *model.runs))
            model = model._replace(forwards=tuple(forwards), runs=runs)
        found[model.load.node] = model
    return tuple(
        sorted(found.values(), key=lambda one: (one.load.node.lineno, one.load.node.col_offset))
    )


def _records(script: Host, run: ForwardRun) -> bool:
    """True if autograd records a pass: where nothing says so, as backward goes through it."""
    return run.gradients is True or (run.gradients is None and run in _backward_of(script))


@query
def _backward_of(script: Host) -> frozenset[ForwardRun | None]:
    """The passes that a backward pass goes through."""
    uses = (use for use in script._run.tensor_uses if use[1].rpartition(".")[2] == "backward")
    parts = (one for tensor, _, _ in uses for one in tensor.history())
    return frozenset(one.forward for one in parts if one.graph is not False)


def _of_trained(runs: tuple[ForwardRun, ...]) -> tuple[ForwardRun, ...]:
    """The runs of what is trained: where one copy of a model is put into training mode, another
    that is in evaluation mode is its reference."""
    trained = {_roots(run) for run in runs if run.training is True}
    kept = (one for one in runs if one.training is not False or _roots(one) in trained)
    return tuple(kept) if trained else runs


def _roots(run: ForwardRun) -> frozenset[int]:
    return frozenset(id(module_root(one)) for one in options(run.module))


def _trained_passes(script: Host) -> Iterator[LoopModel]:
    """The model of every single forward pass that trains what a library loads."""
    frozen = {id(one.run) for one in frozen_passes(script)}
    for step in all_steps_of(script):
        for forward in step.all_forwards:
            for run in forward.runs:
                if forward.own or id(run) in frozen or not _records(script, run):
                    continue
                facts = model_facts(script, run.module)
                load = min(facts.loads, key=lambda one: is_elsewhere(one.node), default=None)
                if load is None or facts.is_toy:
                    continue
                # A trunk that is switched off keeps nothing for the head that is trained.
                if not facts.loads_language_model and _roots(run) & _frozen_roots(script):
                    continue
                made = optimizers_of(step)
                if all(map(is_elsewhere, (load.node, forward.node, step.node, *made))):
                    continue
                if step.runs_it(run):
                    yield LoopModel(load, facts, (forward,), (run,), step)


def generates_in_evaluation_mode(script: Host, facts: ModelFacts) -> bool:
    """True if each call of ``generate`` on a model certainly comes after ``eval()``, and not after
    another ``train()``; and if there is none."""
    modes = script.method_calls_anywhere("train", "eval")
    switches = [(made.order, call) for call in modes for made in call.invocations]
    for call in script.method_calls_anywhere("generate"):
        if is_about(script, call, facts) is False:
            continue
        for made in call.invocations:
            before = [
                one for one in switches if one[0] < made.order and _switches(script, one[1], facts)
            ]
            last = max(before, key=lambda one: one[0])[1] if before else None
            if last is None or last.method == "train":
                return False
            if not script.branches_around(last.node) <= script.branches_around(call.node):
                return False
    return True


def _switches(script: Host, call: Call, facts: ModelFacts) -> bool:
    """True if a call of ``eval`` certainly is of a model, or one of ``train`` may be."""
    about = is_about(script, call, facts)
    return about is True or (about is None and call.method == "train")


def frozen_beside(script: Host, policy: LoopModel) -> tuple[Object, ...]:
    """The models that a step, or a loop around it, runs beside what it trains and that nothing
    trains: by no call of the script, or by a loop that switches their gradients off."""
    idle = {id(one.run) for one in frozen_passes(script)}
    off = _switched_off(script)
    trained = frozenset[int]().union(*map(_roots, policy.runs))
    step = policy.step
    epochs = set(step.epochs)
    runs = [
        run
        for one in all_forwards_of(script)
        for run in one.runs
        if step.runs_it(run) or not epochs.isdisjoint(run.loops)
    ]
    found: dict[int, Object] = {}
    for run in runs:
        for one in options(run.module):
            root = id(module_root(one))
            if isinstance(one, Object) and root not in trained and (root in off or id(run) in idle):
                found.setdefault(root, one)
    return tuple(found.values())


# What draws new completions, by hand or not, of which nobody knows the log-probabilities before.
_DRAWS = ("generate", "multinomial", "sample")


def draws_anew(script: Host, step: Step) -> bool:
    """True if something may draw completions while a step repeats: not what picks rows at random,
    and nothing before or after a loop that the top of the script leads to."""
    loops, generators = {step.node, *step.epochs}, script._run.generators
    is_reached = (step.order or 0) <= script._run.end_of_top
    drawn = (
        made
        for one in script.method_calls_anywhere(*_DRAWS)
        if not one.name.startswith("random.") and "frac" not in one.keywords
        for made in one.invocations
    )
    return script.imports_package("vllm") or any(
        not (is_reached and loops.isdisjoint(one.loops)) or one.function in generators
        for one in drawn
    )


def _switched_off(script: Host) -> set[int]:
    """The roots of models whose gradients a loop switches off and that nothing else asks."""
    switched = set(frozen_modules_of(script))
    off = {id(module_root(each)) for one in switched for each in options(script.value(one))}
    asked = [one for one in script.method_calls_anywhere(*_ASKS) if not _is_look(script, one)]
    others = (one for one in asked if holder_of(one.node) not in switched)
    # An average of the weights is switched off, too, and changes all the time.
    return off - {
        id(module_root(each)) for one in others for each in options(one.receiver or ABSENT)
    }


@query
def _frozen_roots(script: Host) -> frozenset[int]:
    """The roots of models all of whose gradients are switched off, in any file of the project."""
    asked = ("requires_grad_", "parameters", "named_parameters")
    return frozenset(_roots_of(script, *asked, only=_freezes))


def _freezes(script: Host, asked: Call) -> bool:
    """True for ``model.requires_grad_(False)`` and for the ``model.parameters()`` that a loop
    switches off one by one, whatever their names."""
    if asked.name.endswith("requires_grad_"):
        return asked.argument(0) == Constant(False)
    body = getattr(script.parent(asked.node), "body", None)
    return isinstance(body, list) and any(
        isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Constant)
        and one.value.value is False
        and getattr(one.targets[0], "attr", "") == "requires_grad"
        for one in body
    )


def _is_look(script: Host, asked: Call) -> bool:
    """True if weights are counted, or the device of the first is asked for."""
    if is_elsewhere(asked.node):
        return False
    use = script.use(asked.node)
    if use.way is Way.GIVEN:
        return use.name == "next"
    return use.way is Way.LOOPED and use.name != "For"


# -- frozen models beside them ---------------------------------------------------------------------
# References, teachers, reward models: loaded or copied, none of their parameters is ever asked for,
# and those of another model of the step are. A graph of their forward pass serves nobody.

_ASKS = ("parameters", "named_parameters", "requires_grad_", "state_dict", "load_state_dict")


class FrozenPass(NamedTuple):
    """A forward pass of a frozen model in a training step.

    place: the forward pass, or the call of the helper that runs it for trained models, too.
    """

    forward: Forward
    run: ForwardRun
    step: Step
    place: Node


@query
def frozen_passes(script: Host) -> tuple[FrozenPass, ...]:
    """Forward passes of models that a training step runs and nothing trains, one a place."""
    touched = _roots_of(script, *_ASKS)
    trained = _roots_of(script, "parameters", "named_parameters")
    found: dict[Node, FrozenPass] = {}
    for step in steps_of(script):
        for forward, run in _passes_beside(script, step, trained):
            place = _is_frozen(run, touched) and _place(script, forward, run, touched)
            if place:
                found.setdefault(place, FrozenPass(forward, run, step, place))
    return tuple(sorted(found.values(), key=lambda one: script.span(one.place)))


def _passes_beside(
    script: Host, step: Step, trained: set[int]
) -> Iterator[tuple[Forward, ForwardRun]]:
    """The passes of a step in each run of its function that trains something: a run that trains
    nothing was cut short. None where one is of a module of the script's own, whose parameters are
    those of what it holds, too."""
    passes = [(one, run) for one in step.forwards for run in one.runs if step.runs_it(run)]
    if any(one.own for one, _ in passes):
        return
    whole = [(0, script._run._order)]
    for first, last in script._run.extents.get(step.function or step.node, whole):
        inside = [one for one in passes if first <= one[1].invocation.order <= last]
        if any(_root(run) in trained for _, run in inside):
            yield from inside


def _roots_of(
    script: Host, *methods: str, only: Callable[[Host, Call], bool] = lambda *_: True
) -> set[int]:
    """The modules that one of ``methods`` is called on."""
    return {
        id(module_root(one))
        for call in script.method_calls_anywhere(*methods)
        if call.receiver is not None and only(script, call)
        for one in options(call.receiver)
        if isinstance(one, Object)
    }


def _root(run: ForwardRun) -> int | None:
    """The module that a run calls, where it certainly is one and the same, however wrapped."""
    found = options(run.module)
    roots = {id(module_root(one)) for one in found}
    if len(roots) != 1 or not isinstance(found[0], Object):
        return None
    return roots.pop() if run.certainty is Certainty.DEFINITE else None


def _is_frozen(run: ForwardRun, touched: set[int]) -> bool:
    """True if a run certainly is of a module that nothing trains, and trains nothing through it."""
    root, made = _root(run), run.invocation
    if root is None or root in touched or "inputs_embeds" in made.keywords:
        return False
    return all(one.graph is False for one in tensors_in(made))


def _place(script: Host, forward: Forward, run: ForwardRun, touched: set[int]) -> Node | None:
    """The forward pass itself; where a trained model runs at the same place, what leads there."""
    if not any(_root(one) in touched for one in forward.runs):
        return forward.node
    call = script._call_leading_to(run)
    if call is None:
        return None
    # ``self.train_epoch(...)`` of a trainer that several scripts make: trained in one, in all.
    also = [script._call_leading_to(one) for one in forward.runs if _root(one) in touched]
    return None if any(one and one.node is call.node for one in also) else call.node
