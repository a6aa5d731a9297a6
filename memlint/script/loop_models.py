"""Language models that the script's own loops train: what trainers know of theirs, for loops.

A model counts where a training step certainly runs it forward with gradients and nothing says that
it is frozen: a reference, a teacher.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.engine.forwards import ForwardRun
from memlint.engine.modes import module_root
from memlint.engine.project import is_elsewhere
from memlint.engine.values import ABSENT, Object, options
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.forward_passes import Forward, Step, all_steps_of
from memlint.script.frozen import frozen_passes
from memlint.script.loaded_models import ModelFacts, is_language_model, model_facts
from memlint.source.record import NamedTuple


class LoopModel(NamedTuple):
    """A model that a training step trains.

    load: the call that loads it, in any file of the project. forwards: the passes of the step that
        train it.
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
        """True if it is definitely put into training mode: ``from_pretrained`` leaves it in the
        other."""
        return all(run.training is True for run in self.runs)

    @property
    def without_autocast(self) -> bool:
        """True if no pass of the step can be under autocast."""
        return all(run.autocast is None or run.autocast is ABSENT for run in self.runs)


class OwnModel(NamedTuple):
    """A language model of the script's own that a training step trains. made: the call that makes
    it."""

    made: Call
    forward: Forward


@query
def own_models_of(script: Host) -> tuple[OwnModel, ...]:
    """The language models that the script defines and trains in steps of its own."""
    found: dict[object, OwnModel] = {}
    for step in all_steps_of(script):
        for forward in step.all_forwards:
            for run in forward.runs:
                root = module_root(run.module)
                made = script.call_anywhere(root.node) if isinstance(root, Object) else None
                if run.words and run.gradients is True and made and not is_elsewhere(made.node):
                    found[made.node] = OwnModel(made, forward)
    return tuple(found.values())


@query
def loop_models_of(script: Host) -> tuple[LoopModel, ...]:
    """The language models that the script's own loops train, in the order of their loads."""
    found: dict[object, LoopModel] = {}
    for model in _trained_passes(script) if all_steps_of(script) else ():
        before = found.get(model.load.node)
        if before is not None:
            forwards = dict.fromkeys((*before.forwards, *model.forwards))
            model = model._replace(forwards=tuple(forwards), runs=(*before.runs, *model.runs))
        found[model.load.node] = model
    return tuple(
        sorted(found.values(), key=lambda one: (one.load.node.lineno, one.load.node.col_offset))
    )


def _trained_passes(script: Host) -> Iterator[LoopModel]:
    """The model of every single forward pass that trains a language model."""
    frozen = {id(one.run) for one in frozen_passes(script)}
    for step in all_steps_of(script):
        for forward in step.all_forwards:
            for run in forward.runs:
                if forward.own or run.gradients is not True or id(run) in frozen:
                    continue
                facts = model_facts(script, run.module)
                load = facts.load
                if load is None or facts.is_toy:
                    continue
                if all(map(is_elsewhere, (load.node, forward.node, step.node))):
                    continue
                if is_language_model(load) and step.runs_it(run):
                    yield LoopModel(load, facts, (forward,), (run,), step)
