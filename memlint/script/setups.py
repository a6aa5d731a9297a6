"""Configurations and trainers: which a script makes, which gets which, and whether they train."""

import ast
from collections import defaultdict
from collections.abc import Callable

from memlint.api.successors import Replace
from memlint.engine.definitions import keywords_kept, own_methods
from memlint.engine.project import is_elsewhere
from memlint.engine.values import Invocation, Object, Symbol, Value, library_base, options
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Config, Host, Trainer
from memlint.script.forward_passes import all_steps_of
from memlint.script.trainers import TrainerUse, uses_by_trainer

# Whose classes configurations and trainers are, their stand-ins included.
_LIBRARIES = ("transformers.", "trl.", "memlint_runtime.")
_NOT_TRAINING = frozenset({"trl.ModelConfig", "trl.ScriptArguments", "trl.DatasetMixtureConfig"})


# Trainers and configurations that are looked at: rules hold each against all others.
_MOST = 300


@query
def configs_of(script: Host) -> tuple[Config, ...]:
    """Training configurations, those that a parser fills in included."""
    here = [one for one in all_configs_of(script) if not is_elsewhere(one.node)]
    return tuple(sorted(here, key=lambda config: config.span))


@query
def all_configs_of(script: Host) -> tuple[Config, ...]:
    """Training configurations of other files of the project too, which have no place here."""
    return _made(script, lambda name: _is_config(script, name))


@query
def parsed_arguments_of(script: Host) -> tuple[Config, ...]:
    """What a parser fills beside a training configuration: ``trl.ModelConfig``."""
    made = _made(script, lambda name: script.api.canonical(name or "") in _NOT_TRAINING)
    return tuple(one for one in made if one.from_command_line and not is_elsewhere(one.node))


def _made(script: Host, is_wanted: Callable[[str | None], bool]) -> tuple[Config, ...]:
    made: dict[ast.AST, dict[str, list[Object]]] = defaultdict(lambda: defaultdict(list))
    for one in script._run.objects:
        # A copy (``replace(config, packing=True)``) is one more state of the same call's.
        root = one.root
        if root.made_by is not None and is_wanted(root.type):
            made[root.made_by.node][script.api.canonical(root.type or "")].append(one)
    found: list[Config] = []
    for node, by_kind in made.items():
        if not isinstance(node, ast.Call):
            continue
        invocations = script._invocations_by_node.get(node)
        if invocations:
            found.extend(Config(script, invocations, objects) for objects in by_kind.values())
    return tuple(found[:_MOST])


def _is_config(script: Host, name: str | None) -> bool:
    if not name or not name.startswith(_LIBRARIES):
        return False
    kind = script.api.canonical(name)
    if kind in ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"):
        return True
    if "transformers.TrainingArguments" in script.api.bases(kind):
        return True
    # Classes that the target no longer has keep their meaning.
    return kind.startswith("trl.") and kind.endswith("Config") and kind not in _NOT_TRAINING


def config_of(script: Host, made: Object) -> Config | None:
    """The configuration that an object is, or is a copy of."""
    return next((one for one in all_configs_of(script) if made.root in one.made), None)


@query
def trainers_of(script: Host) -> tuple[Trainer, ...]:
    """Trainers of transformers and TRL, instances of the script's own subclasses included."""
    return tuple(one for one in all_trainers_of(script) if not is_elsewhere(one.node))


@query
def all_trainers_of(script: Host) -> tuple[Trainer, ...]:
    """Trainers of other files of the project too, which have no place here."""
    by_name = script.nodes_by_name_anywhere
    names = [name for name in by_name if _is_trainer(script, name)]
    nodes = [node for name in names for node in by_name[name]]
    return tuple(
        Trainer(script, call.invocations, call.name)
        for call in script._in_order(nodes)[:_MOST]
        if call.receiver is None or isinstance(call.receiver, Symbol)
    )


def _is_trainer(script: Host, kind: str) -> bool:
    if not kind.startswith(_LIBRARIES):
        return False
    if kind in ("transformers.Trainer", "transformers.Seq2SeqTrainer"):
        return True
    if "transformers.Trainer" in script.api.bases(kind):
        return True
    return kind.startswith("trl.") and kind.endswith("Trainer")


@query
def training_of(script: Host) -> tuple[Trainer, ...]:
    """The trainers that may train at the target.

    Those that definitely only evaluate are left out, and those of classes that the target does
    not have, under this name or another.
    """
    return tuple(one for one in all_training_of(script) if not is_elsewhere(one.node))


@query
def all_training_of(script: Host) -> tuple[Trainer, ...]:
    """The trainers of ``training_of`` in other files of the project too."""
    api = script.api
    return tuple(
        one
        for one in all_trainers_of(script)
        if (api.exists(one.kind) is not False or isinstance(api.successor(one.kind), Replace))
        and one.trains
    )


@query
def trains(script: Host) -> bool:
    """True if anything may be trained here, by a trainer or in a hand-written loop."""
    return bool(all_training_of(script) or all_steps_of(script))


@query
def feeds_training(script: Host) -> bool:
    """``trains``, or a class that gives Lightning's trainer its data, whoever makes the trainer."""
    here = (one for one in script._run.class_values if not is_elsewhere(one.node))
    gives = ((library_base(one) or "").endswith(".LightningDataModule") for one in here)
    return trains(script) or any(gives)


@query
def may_train(script: Host) -> bool:
    """``trains``, or a lone backward pass or a trainer's subclass, whose loop may be elsewhere."""
    if trains(script) or script.method_calls("backward", "manual_backward"):
        return True
    return any(
        _is_trainer(script, script.api.canonical(base.name))
        for one in script.classes
        for node in one.bases
        for base in options(script.value(node))
        if isinstance(base, Symbol)
    )


# -- which gets which ------------------------------------------------------------------------------


@query
def trainers_by_config(script: Host) -> dict[ast.AST, tuple[Trainer, ...]]:
    """The trainers that get each configuration, by its call."""
    found: dict[ast.AST, tuple[Trainer, ...]] = {}
    for trainer in all_trainers_of(script):
        if trainer.config is not None:
            node = trainer.config.node
            found[node] = (*found.get(node, ()), trainer)
    return found


def trainers_with(script: Host, config: Config) -> tuple[Trainer, ...]:
    """The trainers that get a configuration."""
    return trainers_by_config(script).get(config.node, ())


def training_with(script: Host, config: Config) -> tuple[Trainer, ...]:
    """The trainers that get a configuration and may train."""
    users = {trainer.node for trainer in trainers_with(script, config)}
    return (
        tuple(trainer for trainer in all_training_of(script) if trainer.node in users)
        if users
        else ()
    )


def may_train_with(script: Host, config: Config) -> bool:
    """True if anything may train with a configuration: a trainer out of sight may get it."""
    return not trainers_with(script, config) or bool(training_with(script, config))


def trainer_of(script: Host, value: Value) -> Trainer | None:
    """The trainer that a value is."""
    made = value.made_by if isinstance(value, Object) else None
    node = made.node if made is not None else None
    return next((one for one in all_trainers_of(script) if one.node is node), None)


def trainer_overrides(script: Host, made: Call, *methods: str) -> bool:
    """True if a trainer's or a collator's class in the script defines one of the methods."""
    return any(one.name in methods for one in own_methods(script._run.class_values, made.subclass))


def calls_on_trainer(script: Host, trainer: Trainer, *methods: str) -> tuple[Call, ...]:
    """Calls of ``methods`` on a trainer: ``trainer.evaluate()``."""
    nodes = {invocation.node for invocation in trainer.invocations}
    return tuple(
        call
        for call in script.method_calls(*methods)
        if isinstance(call.receiver, Object)
        and call.receiver.made_by is not None
        and call.receiver.made_by.node in nodes
    )


@query
def invocations_of_trainers(script: Host) -> list[Invocation]:
    return [invocation for trainer in all_trainers_of(script) for invocation in trainer.invocations]


def trainer_uses(script: Host, trainer: Trainer) -> list[TrainerUse]:
    """The calls on a trainer, and those that are handed it."""
    uses = uses_of_trainers(script).get(trainer.node)
    if uses is None:
        uses = uses_by_trainer([trainer], script._run.invocations)[trainer.node]
    return uses


@query
def uses_of_trainers(script: Host) -> dict[ast.AST, list[TrainerUse]]:
    return uses_by_trainer(all_trainers_of(script), script._run.invocations)


# -- subclasses ------------------------------------------------------------------------------------


def kept_by_subclass(call: Call) -> frozenset[str] | None:
    """The keywords that the constructor of the script's own class takes, where all others certainly
    reach the library's; None where that is not certain, or no such class is made."""
    cls = call.subclass
    # The base is the library's class itself.
    direct = cls is not None and bool(cls.bases) and call.script.name(cls.bases[0]) == call.name
    return keywords_kept(cls) if cls is not None and direct else None
