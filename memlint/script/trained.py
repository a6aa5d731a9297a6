"""What a script trains: one answer for trainers and for hand-written loops."""

import ast

from memlint.engine.forwards import Certainty
from memlint.engine.nodes import Node, Statement
from memlint.engine.project import are_of_one_file, is_elsewhere
from memlint.engine.usage import Way
from memlint.engine.values import Invocation, Object, merge
from memlint.flow.evaluated import query
from memlint.flow.events import Event, EventKind, events_of
from memlint.flow.following import uses_of
from memlint.script.call_settings import Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Host, Trainer
from memlint.script.datasets import all_datasets_of
from memlint.script.forward_passes import (
    Forward,
    all_forwards_of,
    all_steps_of,
    optimizers_of,
    updates_of,
)
from memlint.script.loaded_models import ModelFacts, model_facts
from memlint.script.setups import all_configs_of, trainer_overrides, training_of
from memlint.script.trainers import WITHOUT_TRAINING
from memlint.script.weight_precision import loaded_dtype, weights_dtype
from memlint.source.record import NamedTuple

# What shards a model's weights, gradients or optimizer states over several GPUs.
_SHARDING_CALLS = (
    *("FullyShardedDataParallel", "FSDP", "fully_shard", "DeepSpeedPlugin"),
    *("FullyShardedDataParallelPlugin", "ZeroRedundancyOptimizer", "ParallelismConfig"),
    *("parallelize_module", "context_parallel"),
)
# What trainers call in every step.
_HOOKS = frozenset(
    {
        *("training_step", "compute_loss", "on_step_begin", "on_step_end", "on_substep_end"),
        *("on_train_batch_start", "on_train_batch_end"),
    }
)
# Steps and rows of what is only tried out.
_STEPS, _ROWS = 250, 50
_SHARDING_OPTIONS = ("deepspeed", "fsdp")


class Trained(NamedTuple):
    """A language model that is definitely trained, and no toy.

    trainer, forward: what trains it, one of both. place: the node to point at.
    peft: whether it trains adapters; None where nobody can tell.
    dtype: ``torch.float32`` and its like, in which its weights certainly are; else None.
    """

    facts: ModelFacts
    trainer: Trainer | None
    forward: Forward | None
    place: ast.expr
    peft: bool | None
    dtype: str | None

    @property
    def config(self) -> Config | None:
        """The trainer's configuration, where it is known."""
        return self.trainer.config if self.trainer is not None else None

    @property
    def optimizer(self) -> Setting | None:
        """The setting ``optim`` that decides its optimizer; None where something else does."""
        trainer, config = self.trainer, self.config
        if trainer is None or config is None or trainer.brings_optimizer:
            return None
        if any(config.setting(name).given is not False for name in ("optim_args", "adafactor")):
            return None
        own = trainer_overrides(trainer.script, trainer, "create_optimizer")
        return None if own else config.effective("optim")

    @property
    def load(self) -> Call | None:
        """The ``from_pretrained`` of transformers that loads it; None for what else makes it."""
        load = self.facts.load
        if load is None or load.method != "from_pretrained":
            return None
        return load if load.name.startswith("transformers.") else None

    @property
    def is_plain(self) -> bool:
        """True if it is a checkpoint, and definitely no adapter and no quantization is in play."""
        facts = self.facts
        if facts.by_name:
            return self.peft is False
        known = self.load is not None and facts.quantized is False
        return known and self.peft is False and facts.kbit is False


@query
def trained_models(script: Host) -> tuple[Trained, ...]:
    """The language models that trainers and hand-written loops definitely train, each once."""
    found = [
        Trained(
            trainer.model,
            trainer,
            None,
            trainer.node.func,
            trainer.peft,
            weights_dtype(script, trainer),
        )
        for trainer in training_of(script)
        if trainer.trains_language_model
    ]
    loads: set[ast.AST] = set()
    for forward in all_forwards_of(script):
        facts = _facts_of_trained(script, forward)
        load = facts.load
        if load is None or load.node in loads or not _is_trained(forward, facts):
            continue
        made = (node for step in forward.steps for node in optimizers_of(step))
        if all(map(is_elsewhere, (load.node, forward.node, *made))):
            continue
        loads.add(load.node)
        dtype = loaded_dtype(script, facts)
        place = forward.node.func if is_elsewhere(load.node) else load.node.func
        found.append(Trained(facts, None, forward, place, facts.peft, dtype))
    return tuple(found)


def _facts_of_trained(script: Host, forward: Forward) -> ModelFacts:
    """What is known of the model that a pass trains: a helper may score a reference there too."""
    if len(forward.runs) < 2 or forward.facts.load is not None:
        return forward.facts
    return model_facts(script, merge([run.module for run in forward.runs if run.gradients]))


def _is_trained(forward: Forward, facts: ModelFacts) -> bool:
    return (
        bool(forward.steps)
        and forward.records_gradients
        and forward.training is not False
        and forward.certainty is Certainty.DEFINITE
        and not forward.own
        and facts.is_stack_of_layers
        and not facts.is_toy
    )


def is_trial(script: Host, one: Trained) -> bool:
    """True if few steps or few rows are written, or nothing certainly ever trains it."""
    trainer, config = one.trainer, one.config
    if trainer is None:
        return False
    steps = config.effective("max_steps").value if config is not None else None
    if isinstance(steps, int) and 0 < steps < _STEPS:
        return True
    data = [each for each in all_datasets_of(script) if each.trainer is trainer]
    few = any(each.is_trained_on and each.written_rows in range(_ROWS) for each in data)
    return few or not may_be_trained(script, trainer)


def may_be_trained(script: Host, trainer: Trainer) -> bool:
    """False if all that is done to a trainer, in this file and by those that may import it, is
    none of training, or its own step never runs backward."""
    project = script._run.project
    own = trainer_overrides(trainer.script, trainer, "training_step")
    if own and not script.method_calls_anywhere("backward", "training_step"):
        return False
    return (project is not None and project.is_library) or any(
        use.way not in (Way.READ, Way.DROPPED) and use.name not in WITHOUT_TRAINING
        for use in uses_of(script, trainer.node)
    )


def last_training(script: Host, one: Trained) -> Event | None:
    """The last call that trains a model, in the order of the run."""
    found = None
    for event in events_of(script):
        made = event.invocation.receiver
        by = made.made_by if isinstance(made, Object) else None
        if one.trainer is None:
            fits = event.kind is EventKind.BACKWARD
        else:
            fits = event.kind is EventKind.TRAIN and by is not None and by.node is one.trainer.node
        found = event if fits else found
    return found


@query
def step_bodies(script: Host) -> tuple[ast.AST, ...]:
    """What each training step runs: loops that step an optimizer, in any file, and methods of
    trainers."""
    methods = [one for one in script.nodes(ast.FunctionDef) if one.name in _HOOKS]
    return (
        *(step.node for step in all_steps_of(script) if updates_of(step)),
        *(one for one in methods if isinstance(script.parent(one), ast.ClassDef)),
    )


def makes_each_turn(script: Host, body: Node, call: Call) -> bool:
    """True if a step makes a call whatever it meets, itself or in a function that it calls."""
    return any(_happens_each_turn(script, body, one) for one in call.invocations)


def _happens_each_turn(script: Host, body: Node, invocation: Invocation) -> bool:
    reached: Invocation | None = invocation
    while reached is not None:
        if script.flow.is_run_each_turn(body, reached.node):
            return True
        function = reached.function
        if function is None or not script.flow.is_run_each_turn(function, reached.node):
            return False
        reached = next(script._callers(function, reached.order), None)
    return False


@query
def is_sharded(script: Host) -> bool:
    """True if the script says that several GPUs share a model's state, or may."""
    if script.imports_package("deepspeed") or script.method_calls_anywhere(*_SHARDING_CALLS):
        return True
    if script.launcher.engine or script.is_named("tp_plan", "distributed_config"):
        return True
    settings = [one.setting(name) for one in all_configs_of(script) for name in _SHARDING_OPTIONS]
    return any(
        one.given is True and (one.is_overridable_default or not one.is_value(None, "", False))
        for one in settings
    )


def lets_go_between(script: Host, first: ast.AST, last: ast.AST) -> bool:
    """True if a name or an attribute may be deleted, or set to None, between two places."""
    if not are_of_one_file(first, last):
        return True
    start, end = script.span(first).end, script.span(last).start
    freed: list[ast.stmt] = [
        *script.nodes(ast.Delete),
        *(
            one
            for one in script.nodes(ast.Assign)
            if isinstance(one.value, ast.Constant) and one.value.value is None
        ),
    ]
    if any(start <= script.span(one).start < end for one in freed):
        return True
    cleaners = {function.name for one in freed if (function := script.function(one)) is not None}
    return any(
        start <= call.span.start < end and script.text(call.node.func) in cleaners
        for call in script.calls
    )


def names_let_go_at(script: Host, one: Trained, at: Statement) -> list[str]:
    """The names of a trainer and its model, which nothing reads from a statement on; none where
    something may, or where they are kept otherwise."""
    made = [each.node for each in one.facts.objects if each.node is not None]
    made = [one.trainer.node, *made] if one.trainer is not None else []
    around, names = set(script.ancestors(at)), []
    for node in made:
        places = script.use(node).places
        named = len(places) == 1 and places[0].is_whole and places[0].holder is None
        if not named or script.parent(script.statement(node)) not in around:
            return []
        names.append(places[0].name)
    once = not script.flow.loops_around(at)
    done = once and all(_is_done_with(script, name, at) for name in names)
    return list(dict.fromkeys(names)) if done else []


def _is_done_with(script: Host, name: str, at: Statement) -> bool:
    """True if whatever reads a name from a statement on reads what is bound to it there."""
    flow, start = script.flow, script.span(at).start
    uses = flow.uses(name, flow.scope(at))
    later = (flow.definitions(one) for one in uses if script.span(one).start >= start)
    return all(flow.scope(one) is flow.scope(at) for one in uses) and all(
        bound and all(script.span(each).start >= start for each in bound) for bound in later
    )


def are_exclusive(script: Host, one: ast.AST, other: ast.AST) -> bool:
    """True if two nodes stand in different arms of one ``if``: a run reaches one of them."""
    arms = dict(_arms(script, one))
    return any(arms.get(branch, arm) != arm for branch, arm in _arms(script, other))


def _arms(script: Host, node: ast.AST) -> list[tuple[ast.AST, bool]]:
    found: list[tuple[ast.AST, bool]] = []
    child = node
    for around in script.ancestors(node):
        if isinstance(around, ast.If):
            found.append((around, child in around.body))
        child = around
    return found
