"""The script model: what rules see of a training script.

Calls by qualified name with their settings, configurations and trainers joined to each other,
models with what wraps them, hand-written loops, and the facts that no single call holds. Lists are
in source order and computed when first asked for.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memlint.api.successors import Replace
from memlint.script.branches import is_off_by_default
from memlint.script.calls import Call, Config, Trainer
from memlint.script.checkpointing import deciding_call
from memlint.script.checkpoints import (
    ModelFacts,
    chain_of,
    is_language_model,
    is_quantized,
    model_facts,
)
from memlint.script.command_line import CommandLine
from memlint.script.datasets import Dataset, datasets_of, may_shorten_rows
from memlint.script.effects import handlers
from memlint.script.evaluation import Evaluation, evaluations_of, frozen_modules_of
from memlint.script.events import Event, Kept, events_of, kept_of
from memlint.script.flow import Flow
from memlint.script.forwards import ForwardRun
from memlint.script.frozen import FrozenPass, frozen_passes
from memlint.script.gradients import (
    accumulation_of,
    calls_step,
    needs_gradients_in_place,
    reads_gradients_unchecked,
)
from memlint.script.graphs import (
    Graph,
    Hoard,
    Sum,
    comes_from,
    graph_of,
    hoards_of,
    starts_of,
    sums_of,
)
from memlint.script.interpreter import Interpreter
from memlint.script.invocations import Record
from memlint.script.lengths import joins_and_cuts
from memlint.script.loop_models import LoopModel, loop_models
from memlint.script.losses import TokenLoss, are_only_gathered, token_losses
from memlint.script.metrics import Metric, metric_of
from memlint.script.modes import is_off_around, module_root
from memlint.script.outputs import ConfigAssignment, config_assignments, may_read_output
from memlint.script.owners import (
    AttentionOwner,
    CheckpointingOwner,
    LossOwner,
    avoids_logits,
    overrides,
    owner_of_attention,
    owner_of_checkpointing,
    owner_of_loss,
    patches_loss,
)
from memlint.script.packing import learns_prompts, sets_attention
from memlint.script.parameters import takes_parameter
from memlint.script.passes import CLASSIFIERS, Forward, forwards_of
from memlint.script.project import Project, is_elsewhere
from memlint.script.prompts import (
    Group,
    completions_together,
    prompt_limit,
    repeating_trainers,
    scored_elsewhere,
)
from memlint.script.purpose import Purpose
from memlint.script.reads import fields_read, fillers_of_cache, gets_cache, positions_read
from memlint.script.restoring import Fate, device_names, fates_of
from memlint.script.settings import Setting, python_value, setting_of, unified
from memlint.script.steps import Step, steps_of
from memlint.script.tensors import Positions, Tensor, Use, Width, known_tensors
from memlint.script.tokenization import Tokenization, tokenizations_of
from memlint.script.trained import (
    Trained,
    are_exclusive,
    is_sharded,
    last_training,
    lets_go_between,
    step_bodies,
    trained_models,
)
from memlint.script.trainers import TrainerUse, uses_by_trainer
from memlint.script.tree import Tree
from memlint.script.values import (
    ABSENT,
    UNKNOWN,
    Object,
    Slot,
    Symbol,
    Value,
    options,
)
from memlint.script.weights import (
    casts_of,
    dtype_name,
    dtype_option,
    given_dtype,
    holds_float32,
    is_trained,
    loads_float32,
    trains_language_model,
    weights_dtype,
)
from memlint.source import Source

if TYPE_CHECKING:
    from memlint.api import Api

_HANDLERS = handlers()
_LOADER = "transformers.AutoModelForCausalLM.from_pretrained"
# Whose classes configurations and trainers are, their stand-ins included.
_LIBRARIES = ("transformers.", "trl.", "memlint_runtime.")


class Loop(NamedTuple):
    """A hand-written training loop: the innermost loop around a ``backward``.

    node: the ``for`` or ``while``. backward: the calls that run the backward pass in it.
    function: the function that holds it, None at module level.
    """

    node: ast.For | ast.AsyncFor | ast.While
    backward: tuple[Call, ...]
    function: ast.AST | None


class Script(Tree):
    """One script, read once. Build it with :func:`build_script`."""

    def __init__(self, source: Source, tree: ast.Module, api: Api, run: Interpreter) -> None:
        super().__init__(source, tree)
        self.api = api
        self._run = run
        self._made: dict[ast.Call, Call] = {}

    def forget(self) -> None:
        """Let go of all that was read, so that it is freed at once: a script, its calls and the
        run behind them know each other, and the garbage collector would search all of them."""
        vars(self._run).clear()
        vars(self).clear()

    # -- names and values ------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """What an expression may be, over all ways in which it is reached."""
        return self._run.values.get(node, UNKNOWN)

    @property
    def classes(self) -> list[ast.ClassDef]:
        """The class definitions that some path reaches, in the order of the run, each once."""
        return list(dict.fromkeys(self._run.classes))

    def attribute_reads(self) -> Iterator[tuple[ast.Attribute, Object | Symbol]]:
        """The attributes that some path reads off something known by its type or name, and off
        what."""
        values = self._run.values
        for node in values:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                if is_elsewhere(node):
                    continue
                value = unified(values.get(node.value, UNKNOWN))
                if isinstance(value, Symbol) or (
                    isinstance(value, Object) and value.type is not None
                ):
                    yield node, value

    def python(self, node: ast.expr) -> object:
        """The Python value of an expression, or UNSURE."""
        return python_value(self.value(node))

    def name(self, node: ast.expr) -> str | None:
        """The canonical qualified name that an expression certainly stands for."""
        value = self.value(node)
        return self.api.canonical(value.name) if isinstance(value, Symbol) else None

    @property
    def imports(self) -> list[tuple[ast.Import | ast.ImportFrom, ast.alias, str]]:
        """Every import: the statement, the alias, the qualified name."""
        return self._run.imports

    def settings_file(self, name: str) -> object:
        """What a JSON file of the project says (``ds.json``); None where that is not known."""
        return None if self._run.project is None else self._run.project.settings_file(name)

    def imports_package(self, *packages: str) -> bool:
        """Whether anything of one of the top-level packages is imported."""
        return any(full.split(".")[0] in packages for _, _, full in self.imports)

    # -- calls -----------------------------------------------------------------------------------

    @cached_property
    def _by_node(self) -> dict[ast.Call, list[Record]]:
        grouped: dict[ast.Call, list[Record]] = defaultdict(list)
        for record in self._run.records:
            if isinstance(record.node, ast.Call) and record.name != "fire":
                grouped[record.node].append(record)
        return grouped

    @cached_property
    def _by_name(self) -> dict[str, list[ast.Call]]:
        """The call nodes of each canonical name: few names are asked for, of many calls."""
        canonical = self.api.canonical
        grouped: dict[str, list[ast.Call]] = defaultdict(list)
        for node, records in self._by_node.items():
            if is_elsewhere(node):
                continue
            grouped[canonical(records[0].name)].append(node)
        return grouped

    @cached_property
    def _by_method(self) -> dict[str, list[ast.Call]]:
        grouped: dict[str, list[ast.Call]] = defaultdict(list)
        for name, nodes in self._by_name.items():
            grouped[name.rpartition(".")[2]] += nodes
        return grouped

    def _call(self, node: ast.Call) -> Call:
        call = self._made.get(node)
        if call is None:
            call = self._made[node] = Call(self, self._by_node[node])
        return call

    def _in_order(self, nodes: list[ast.Call]) -> list[Call]:
        ordered = nodes
        if len(nodes) > 1:
            ordered = sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
        return [self._call(node) for node in ordered]

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the script that some path reaches."""
        return tuple(self._in_order([one for one in self._by_node if not is_elsewhere(one)]))

    def calls_to(self, *names: str) -> tuple[Call, ...]:
        """Calls of callees by canonical qualified name (instances of subclasses included)."""
        return tuple(call for name in names for call in self._in_order(self._by_name.get(name, [])))

    def method_calls(self, *methods: str) -> tuple[Call, ...]:
        """Calls whose name ends in one of ``methods``, whatever it is called on."""
        return tuple(
            call for method in methods for call in self._in_order(self._by_method.get(method, []))
        )

    def library_calls(self, *packages: str) -> tuple[Call, ...]:
        """Calls of what is in one of the top-level ``packages``, by canonical name."""
        beginnings = tuple(f"{package}." for package in packages)
        return tuple(
            self._in_order(
                [
                    node
                    for name, nodes in self._by_name.items()
                    if name.startswith(beginnings)
                    for node in nodes
                ]
            )
        )

    def calls_of_several(self, *packages: str) -> tuple[tuple[Call, ...], ...]:
        """Calls of a name that is one of several things of the top-level ``packages``: the call
        once as a call of each (``trainer_class = SFTTrainer if tune else DPOTrainer``)."""
        beginnings = tuple(f"{package}." for package in packages)
        found = []
        for node in self._by_name.get("?", ()):
            records = self._by_node[node]
            names = list(dict.fromkeys(name for one in records for name in one.candidates))
            if names and all(name.startswith(beginnings) for name in names):
                call = Call(self, records)
                found.append(tuple(call.as_call_of(self.api.canonical(name)) for name in names))
        return tuple(found)

    def call_at(self, node: ast.AST | None) -> Call | None:
        """The call that a node of the script is."""
        return None if is_elsewhere(node) else self.call_anywhere(node)

    def call_anywhere(self, node: ast.AST | None) -> Call | None:
        """The call that a node is, of another file of the project too: it has no place here."""
        return self._call(node) if isinstance(node, ast.Call) and node in self._by_node else None

    # -- configurations and trainers -------------------------------------------------------------

    def _is_config(self, name: str | None) -> bool:
        if not name or not name.startswith(_LIBRARIES):
            return False
        kind = self.api.canonical(name)
        if kind in ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"):
            return True
        if "transformers.TrainingArguments" in self.api.bases(kind):
            return True
        # Classes that the target no longer has keep their meaning.
        return kind.startswith("trl.") and kind.endswith("Config") and kind not in _NOT_TRAINING

    def _is_trainer(self, kind: str) -> bool:
        if not kind.startswith(_LIBRARIES):
            return False
        if kind in ("transformers.Trainer", "transformers.Seq2SeqTrainer"):
            return True
        if "transformers.Trainer" in self.api.bases(kind):
            return True
        return kind.startswith("trl.") and kind.endswith("Trainer")

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """Training configurations, those that a parser fills in included."""
        made: dict[ast.AST, dict[str, list[Object]]] = defaultdict(lambda: defaultdict(list))
        for one in self._run.objects:
            # A copy (``replace(config, packing=True)``) is one more state of the same call's.
            root = one
            while root.base is not None:
                root = root.base
            if root.made_by is not None and self._is_config(root.type):
                made[root.made_by.node][self.api.canonical(root.type or "")].append(one)
        found: list[Config] = []
        for node, by_kind in made.items():
            if not isinstance(node, ast.Call) or is_elsewhere(node):
                continue
            records = self._by_node.get(node)
            if records:
                found.extend(Config(self, records, objects) for objects in by_kind.values())
        return tuple(sorted(found, key=lambda config: config.span))

    def config_of(self, made: Object) -> Config | None:
        """The configuration that an object is, or is a copy of."""
        while made.base is not None:
            made = made.base
        return next((one for one in self.configs if made in one.made), None)

    @cached_property
    def trainers(self) -> tuple[Trainer, ...]:
        """Trainers of transformers and TRL, instances of the script's own subclasses included."""
        names = [name for name in self._by_name if self._is_trainer(name)]
        nodes = [node for name in names for node in self._by_name[name]]
        return tuple(
            Trainer(self, call.records, call.name)
            for call in self._in_order(nodes)
            if call.receiver is None or isinstance(call.receiver, Symbol)
        )

    @cached_property
    def training(self) -> tuple[Trainer, ...]:
        """The trainers that may train at the target.

        Those that definitely only evaluate are left out, and those of classes that the target does
        not have, under this name or another.
        """
        return tuple(
            trainer
            for trainer in self.trainers
            if self._is_at_target(trainer.kind) and trainer.trains
        )

    def _is_at_target(self, kind: str) -> bool:
        if self.api.exists(kind) is not False:
            return True
        return isinstance(self.api.successor(kind), Replace)

    @cached_property
    def trains(self) -> bool:
        """Whether anything may be trained here, by a trainer or in a hand-written loop."""
        return bool(self.training or self.loops or self.steps)

    @cached_property
    def may_train(self) -> bool:
        """``trains``, or a backward pass out of a loop, or a trainer's subclass: the loop or the
        trainer may be made elsewhere."""
        if self.trains or self.method_calls("backward", "manual_backward"):
            return True
        return self.says("Trainer") and any(
            self._is_trainer(self.api.canonical(base.name))
            for one in self.classes
            for node in one.bases
            for base in options(self.value(node))
            if isinstance(base, Symbol)
        )

    @property
    def records(self) -> list[Record]:
        """Every call as it was evaluated, in the order of the run."""
        return self._run.records

    @cached_property
    def trainer_records(self) -> list[Record]:
        return [record for trainer in self.trainers for record in trainer.records]

    def trainer_uses(self, trainer: Trainer) -> list[TrainerUse]:
        """The calls on a trainer, and those that are handed it."""
        uses = self._uses_by_trainer.get(trainer.node)
        if uses is None:
            uses = uses_by_trainer([trainer], self._run.records)[trainer.node]
        return uses

    @cached_property
    def _uses_by_trainer(self) -> dict[ast.AST, list[TrainerUse]]:
        return uses_by_trainer(self.trainers, self._run.records)

    def trainer_of(self, value: Value) -> Trainer | None:
        """The trainer that a value is."""
        made = value.made_by if isinstance(value, Object) else None
        node = made.node if made is not None else None
        return next((one for one in self.trainers if one.node is node), None)

    def overrides(self, trainer: Trainer, *methods: str) -> bool:
        """Whether a trainer is of a class of the script that defines one of the methods."""
        return trainer.subclass is not None and overrides(self, trainer.subclass, *methods)

    def trainers_with(self, config: Config) -> tuple[Trainer, ...]:
        """The trainers that get a configuration."""
        return tuple(
            trainer
            for trainer in self.trainers
            if trainer.config is not None and trainer.config.node is config.node
        )

    def training_with(self, config: Config) -> tuple[Trainer, ...]:
        """The trainers that get a configuration and may train."""
        users = {trainer.node for trainer in self.trainers_with(config)}
        return tuple(trainer for trainer in self.training if trainer.node in users)

    def may_train_with(self, config: Config) -> bool:
        """Whether anything may train with a configuration: a trainer out of sight may get it."""
        return not self.trainers_with(config) or bool(self.training_with(config))

    def final_slots(self, made: Object) -> dict[str, Slot]:
        """The slots of an object when the script ends."""
        return self._run.slots(made)

    def item(self, mapping: Object, key: str) -> object:
        """What a dict of the script holds under ``key`` at the end: a Python value, or UNSURE.

        MISSING where it certainly has no such key.
        """
        return setting_of(key, self._run.slots(mapping).get(key), open_ended=mapping.open).value

    # -- models ----------------------------------------------------------------------------------

    def model_facts(self, value: Value) -> ModelFacts:
        """What the script says of the model that ``value`` is."""
        return model_facts(self, value)

    def loads_language_model(self, load: Call) -> bool:
        """Whether a call loads a decoder or encoder-decoder with logits over a vocabulary."""
        return is_language_model(load)

    def trains_language_model(self, trainer: Trainer) -> bool:
        """Whether a trainer definitely trains a language model worth its memory."""
        return trains_language_model(trainer)

    def is_trained(self, load: Call) -> bool:
        """Whether the model that ``load`` makes definitely reaches a trainer."""
        return is_trained(self, load)

    def given_dtype(self, load: Call) -> Setting | None:
        """The dtype option that a load gives, under either name."""
        return given_dtype(load)

    def dtype_name(self, setting: Setting) -> str | None:
        """``torch.bfloat16`` and its like; ``auto``; None where it is not known."""
        return dtype_name(setting)

    def dtype_option(
        self, loader: str = "transformers.AutoModelForCausalLM.from_pretrained"
    ) -> str:
        """What ``loader`` calls the dtype option in the target version."""
        return dtype_option(self, loader)

    def weights_dtype(self, trainer: Trainer) -> str | None:
        """``torch.float32`` and its like, in which a trainer's weights certainly are; else None."""
        return weights_dtype(self, trainer)

    def loads_float32(self, trainer: Trainer) -> bool:
        """Whether a trainer's weights are definitely loaded in float32."""
        return loads_float32(self, trainer)

    def holds_float32(self, facts: ModelFacts) -> bool:
        """Whether a loaded model definitely holds float32 weights, by its checkpoint too."""
        return holds_float32(self, facts)

    def casts_of(self, facts: ModelFacts) -> list[str]:
        """The dtypes that methods cast a model's weights to (``torch.float32``)."""
        return casts_of(self, facts)

    def copy_of(self, value: Value) -> Call | None:
        """The call that copies one model to another (``deepcopy``), where a model is a copy."""
        for one in options(value):
            root = module_root(one)
            if isinstance(root, Object) and root.base is not None and root.made_by is not None:
                return self.call_at(root.made_by.node)
        return None

    def is_quantized(self, load: Call) -> bool | None:
        """Whether a ``from_pretrained`` call loads quantized weights."""
        return is_quantized(load)

    @cached_property
    def model_loads(self) -> tuple[Call, ...]:
        """Calls that load weights: ``from_pretrained`` of model classes of transformers."""
        return tuple(
            call
            for call in self.method_calls("from_pretrained")
            if call.name.startswith("transformers.")
            and any(part in call.name for part in ("Model", "For", "LMHead"))
            and not any(part in call.name for part in _NOT_MODELS)
        )

    def calls_on(self, facts: ModelFacts, *methods: str) -> tuple[Call, ...]:
        """Calls of ``methods`` on a model or on what it wraps."""
        objects = set(map(id, facts.objects))
        return tuple(
            call
            for call in self.method_calls(*methods)
            if call.receiver is not None
            and any(
                id(inner) in objects
                for one in options(call.receiver)
                if isinstance(one, Object)
                for inner in chain_of(one)
            )
        )

    def calls_on_trainer(self, trainer: Trainer, *methods: str) -> tuple[Call, ...]:
        """Calls of ``methods`` on a trainer: ``trainer.evaluate()``."""
        nodes = {record.node for record in trainer.records}
        return tuple(
            call
            for call in self.method_calls(*methods)
            if isinstance(call.receiver, Object)
            and call.receiver.made_by is not None
            and call.receiver.made_by.node in nodes
        )

    @cached_property
    def loop_models(self) -> tuple[LoopModel, ...]:
        """The language models that the script's own loops train."""
        return loop_models(self)

    @cached_property
    def trained(self) -> tuple[Trained, ...]:
        """The language models that trainers and hand-written loops definitely train."""
        return trained_models(self)

    @cached_property
    def is_sharded(self) -> bool:
        """Whether the script says that several GPUs share a model's state, or may."""
        return is_sharded(self)

    def lets_go_between(self, first: ast.AST, last: ast.AST) -> bool:
        """Whether a name or an attribute is deleted, or bound to None, between two places."""
        return lets_go_between(self, first, last)

    def are_exclusive(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes stand in different arms of one ``if``: a run reaches one of them."""
        return are_exclusive(self, one, other)

    def device_names(self, call: Call, option: str) -> tuple[str, ...]:
        """The names that a device may have: ``cuda`` and ``cpu`` of ``torch.device("cuda" if
        torch.cuda.is_available() else "cpu")``."""
        return device_names(self, call, option)

    @property
    def step_bodies(self) -> tuple[ast.AST, ...]:
        """What every training step runs: loops that step an optimizer, and methods of trainers and
        callbacks."""
        return step_bodies(self)

    def last_training(self, trained: Trained) -> Event | None:
        """The last call that trains a model, in the order of the run."""
        return last_training(self, trained)

    def fates_of(self, call: Call) -> set[Fate]:
        """What becomes of what ``torch.load`` reads, over all its uses."""
        return fates_of(self, call)

    # -- loops -----------------------------------------------------------------------------------

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Hand-written training loops."""
        inside: dict[ast.AST, list[Call]] = defaultdict(list)
        for call in self.method_calls("backward"):
            if not isinstance(call.node.func, ast.Attribute):
                continue
            for around in self.ancestors(call.node):
                if isinstance(around, ast.For | ast.AsyncFor | ast.While):
                    inside[around].append(call)
                    break
                if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    break
        return tuple(
            Loop(node, tuple(calls), self.function(node))
            for node, calls in inside.items()
            if isinstance(node, ast.For | ast.AsyncFor | ast.While)
        )

    # -- training --------------------------------------------------------------------------------

    @cached_property
    def forwards(self) -> tuple[Forward, ...]:
        """Forward passes of models, in source order: those in helpers, methods and wrappers too."""
        return tuple(one for one in self.all_forwards if not is_elsewhere(one.node))

    @cached_property
    def all_forwards(self) -> tuple[Forward, ...]:
        """Forward passes, those in other files of the project too, which have no place here."""
        return forwards_of(self, self._run.forwards)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What happens in training, in the order of the run."""
        return events_of(self, self._run.records, self._run.forwards)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Training steps of hand-written loops, those whose backward is in a function too."""
        return steps_of(self)

    @property
    def accumulation(self) -> int | None:
        """Micro-batches for each step of a hand-written loop; None where it is one, or unknown."""
        return accumulation_of(self)

    def steps_optimizer(self, function: Value) -> bool:
        """Whether a function of the script calls a method ``step``."""
        node = getattr(function, "node", None)
        return isinstance(node, ast.FunctionDef | ast.Lambda) and calls_step(node)

    @property
    def needs_gradients_in_place(self) -> bool:
        """Whether something writes into gradients that must be there."""
        return needs_gradients_in_place(self)

    @property
    def reads_gradients_unchecked(self) -> bool:
        """Whether the script reads ``.grad`` and never compares it with None."""
        return reads_gradients_unchecked(self)

    @cached_property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Statements that run models in evaluation mode where autograd is on, or may be."""
        return evaluations_of(self)

    @cached_property
    def frozen_modules(self) -> tuple[ast.expr, ...]:
        """Expressions for modules of which the script says whether they want gradients."""
        return frozen_modules_of(self)

    def end_of_run(self, record: Record) -> int:
        """The number of the last evaluation of the run that a call belongs to: from the top of the
        script, or of the function that runs by itself as nothing calls it."""
        if record.order <= self._run.end_of_top:
            return self._run.end_of_top
        around = [
            last
            for extents in self._run.extents.values()
            for first, last in extents
            if first < record.order <= last
        ]
        return max(around, default=record.order)

    @cached_property
    def kept_tensors(self) -> tuple[Kept, ...]:
        """Tensors that a loop appends to a list that outlives its turn."""
        return kept_of(self)

    @cached_property
    def sums(self) -> tuple[Sum, ...]:
        """What loops add up over their turns: ``total += loss``."""
        return sums_of(self)

    @cached_property
    def hoards(self) -> tuple[Hoard, ...]:
        """What loops append to lists that outlive their turns: ``losses.append(loss)``."""
        return hoards_of(self)

    def graph_of(self, node: ast.expr, loop: ast.AST) -> Graph | None:
        """What of an expression's graph is there when a turn of ``loop`` ends; None for none, or
        where that is not known."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef)
        return graph_of(self, node, loop)

    def starts_of(self, backward: Call) -> tuple[ast.expr, ...]:
        """What a backward pass starts from: ``loss`` of ``loss.backward()``."""
        return starts_of(backward)

    def comes_from(self, step: Step, node: ast.expr) -> bool:
        """Whether all of a tensor's graph certainly is of the forward passes of one turn."""
        return comes_from(self, step, node)

    @cached_property
    def flow(self) -> Flow:
        """Where names are bound and read."""
        return Flow(self)

    def loop_ends(self, loop: ast.AST) -> list[dict[str, Slot]]:
        """For each run of a loop, the names that a turn leaves bound to outputs or tensors."""
        return self._run.loop_ends.get(loop, [])

    def calls_of(self, records: list[Record]) -> tuple[Call, ...]:
        """The places where evaluations of calls took place, in source order, each once."""
        nodes = dict.fromkeys(record.node for record in records if record.node in self._by_node)
        return tuple(self._in_order([node for node in nodes if not is_elsewhere(node)]))

    @cached_property
    def loads_language_models_only(self) -> bool:
        """Whether all models that the script loads are language models, and it defines none."""
        loads = self.model_loads
        if not loads or not all(map(is_language_model, loads)):
            return False
        return not any(
            "Module" in base.attr if isinstance(base, ast.Attribute) else "Module" in base.id
            for one in self.classes
            for base in one.bases
            if isinstance(base, ast.Attribute | ast.Name)
        )

    def forward_at(self, node: ast.AST | None) -> Forward | None:
        """The forward pass that a call is."""
        return next((one for one in self.all_forwards if one.node is node), None)

    def trains_model(self, load: Call) -> bool:
        """Whether a trainer or a training step definitely trains the model that a call loads."""
        by_trainer = any(
            trainer.model.load is not None
            and trainer.model.load.node is load.node
            and not trainer.model.is_toy
            for trainer in self.training
        )
        return by_trainer or any(
            forward.gradients is not False
            and forward.facts.load is not None
            and forward.facts.load.node is load.node
            and forward.in_training_step
            for forward in self.forwards
        )

    def may_read_output(self, field: str) -> bool:
        """Whether anything may read a field of models' outputs (``hidden_states``)."""
        return may_read_output(self, field)

    def config_assignments(self, option: str) -> tuple[ConfigAssignment, ...]:
        """The statements ``model.config.option = value``, in source order."""
        return config_assignments(self, option)

    # -- data sets -------------------------------------------------------------------------------

    @cached_property
    def datasets(self) -> tuple[Dataset, ...]:
        """The data sets that trainers and data loaders read, in source order."""
        return datasets_of(self)

    @cached_property
    def streams_data(self) -> bool:
        """Whether a data set may be streamed: it cannot be walked before training."""
        settings = [call.setting("streaming") for call in self.method_calls("load_dataset")]
        return any(one.given is not False and one.value is not False for one in settings)

    def lengths_may_differ(self, trainer: Trainer) -> bool:
        """Whether the making of a trainer's training set is in sight and leaves rows of several
        lengths."""
        data = [one for one in self.datasets if one.trainer and one.trainer.node is trainer.node]
        return any(one.lengths_differ for one in data if one.purpose is not Purpose.EVALUATION)

    @cached_property
    def tokenizations(self) -> tuple[Tokenization, ...]:
        """The places where the script calls a tokenizer, in source order."""
        return tokenizations_of(self)

    @property
    def block_functions(self) -> tuple[ast.FunctionDef, ...]:
        """Functions that lay rows end to end and cut them into equal blocks."""
        return tuple(one for one in self.nodes(ast.FunctionDef) if joins_and_cuts(one))

    @cached_property
    def may_truncate(self) -> bool:
        """Whether a tokenizer's call here may truncate, or none is in sight."""
        calls = [one.call for one in self.tokenizations if one.call.method != "pad"]
        return not calls or any(
            call.open_ended or call.setting("truncation").given is not False for call in calls
        )

    @cached_property
    def may_shorten_rows(self) -> bool:
        """Whether rows may be cut, split into blocks or dropped after they are tokenized."""
        return may_shorten_rows(self)

    def records_between(self, first: int, last: int) -> list[Record]:
        """The calls that were evaluated in a stretch of the run, in order."""
        found = [one for one in self._run.records if first < one.order <= last]
        return sorted(found, key=lambda record: record.order)

    def records_in(self, function: ast.AST) -> list[Record]:
        """The calls that the runs of a function made, those of what it calls included."""
        extents = self._run.extents.get(function, [])
        return [one for first, last in extents for one in self.records_between(first, last)]

    # -- owners ----------------------------------------------------------------------------------

    @cached_property
    def patching_calls(self) -> tuple[Call, ...]:
        """Calls that may replace a model's loss or head (Liger, cut cross entropy, the runtime)."""
        names = [name for name in self._by_name if patches_loss(name)]
        return tuple(self._in_order([node for name in names for node in self._by_name[name]]))

    def owner_of_loss(self, of: Trainer | ModelFacts | Value) -> LossOwner:
        """Who computes the loss of a trainer, or of a model that a loop calls."""
        return owner_of_loss(self, of)

    def owner_of_attention(self, facts: ModelFacts, config: Config | None = None) -> AttentionOwner:
        """Who computes a model's attention, and by which implementation."""
        return owner_of_attention(self, facts, config)

    def owner_of_checkpointing(
        self, facts: ModelFacts, config: Config | None = None
    ) -> CheckpointingOwner:
        """Who recomputes a model's activations."""
        return owner_of_checkpointing(self, facts, config)

    def is_about(self, call: Call, facts: ModelFacts) -> bool | None:
        """Whether a method is called on a model or what it wraps; None where on what is unknown."""
        if call.receiver is None:
            return None
        found = [one for one in options(call.receiver) if isinstance(one, Object)]
        if not found:
            return None
        objects = set(map(id, facts.objects))
        return any(id(inner) in objects for one in found for inner in chain_of(one))

    def metric_of(self, trainer: Trainer) -> Metric | None:
        """The ``compute_metrics`` of a trainer; None where it is no function of the script."""
        return metric_of(self, trainer)

    def repeating_trainers(self, *kinds: str) -> tuple[Trainer, ...]:
        """Trainers that forward a prompt once for each of its answers, and need not."""
        return tuple(repeating_trainers(self, kinds))

    def prompt_limit(self, trainer: Trainer) -> int | None:
        """How many tokens a trainer's prompts have at most, where the script says so."""
        return prompt_limit(self, trainer)

    @cached_property
    def completions_together(self) -> Group | None:
        """The completions that a loop draws for each prompt; None where one or unknown."""
        return completions_together(self)

    @cached_property
    def scored_elsewhere(self) -> tuple[Call, ...]:
        """Calls that score tokens, with a gradient, in another file of the project."""
        return scored_elsewhere(self, self._run.tensor_uses)

    def call_leading_to(self, run: ForwardRun) -> Call | None:
        """The call of this file by which a forward pass in a helper or another file is reached."""
        for function, extents in self._run.extents.items():
            name = getattr(function, "name", "")
            if function is not run.function and not is_elsewhere(function):
                continue
            for first, last in extents:
                if not first <= run.order <= last:
                    continue
                for record in reversed(self.records_between(0, first)):
                    if record.name.rpartition(".")[2] == name and not is_elsewhere(record.node):
                        return self.call_at(record.node)
        return None

    @cached_property
    def frozen_passes(self) -> tuple[FrozenPass, ...]:
        """Forward passes of models that a training step runs and nothing trains."""
        return frozen_passes(self)

    # -- tensors ---------------------------------------------------------------------------------

    def tensors(self, node: ast.expr) -> tuple[Tensor, ...]:
        """The tensors that an expression may be; empty where it may be something else, too."""
        return known_tensors(self.value(node))

    def forward_of(self, tensor: Tensor) -> Forward | None:
        """The forward pass that a tensor comes from."""
        run = tensor.forward
        return self.forward_at(run.record.node) if run is not None else None

    def is_vocabulary_wide(self, tensor: Tensor) -> bool | None:
        """Whether a tensor certainly has a number for every word of a vocabulary."""
        if tensor.width is not Width.LOGITS:
            return None if tensor.width is Width.UNKNOWN else False
        forward = self.forward_of(tensor)
        return forward.language_model if forward is not None else None

    @cached_property
    def _uses(self) -> dict[ast.expr | None, list[Use]]:
        grouped: dict[ast.expr | None, list[Use]] = defaultdict(list)
        for use in self._run.tensor_uses:
            grouped[use[0].node].append(use)
        return grouped

    def uses_of(self, tensor: Tensor) -> tuple[Use, ...]:
        """What reads a tensor: (tensor, operation, node), over all runs, each place once."""
        found: dict[tuple[str, ast.expr], Use] = {}
        for use in self._uses.get(tensor.node, ()):
            found.setdefault((use[1], use[2]), use)
        return tuple(found.values())

    def uses_at(self, node: ast.expr) -> tuple[Use, ...]:
        """What reads the tensor that an expression makes, over all runs."""
        return tuple(self._uses.get(node, ()))

    @cached_property
    def token_losses(self) -> tuple[TokenLoss, ...]:
        """Losses and log-probabilities that the script itself computes from logits."""
        return token_losses(self, self._run.tensor_uses)

    def are_only_gathered(self, losses: list[TokenLoss]) -> bool:
        """Whether all logits that the script reads go into these log-softmaxes alone."""
        return are_only_gathered(self, losses, self._run.tensor_uses)

    @cached_property
    def loads_classifier(self) -> bool:
        """Whether a model with labels instead of a vocabulary is loaded."""
        return any(part in load.name for load in self.model_loads for part in CLASSIFIERS)

    def fields_read(self, forward: Forward) -> frozenset[str] | None:
        """The fields that the script reads of what a forward pass returns; None where it may go
        out of sight. Empty where nothing reads it."""
        return fields_read(self, forward)

    def positions_read(self, forward: Forward) -> Positions:
        """The positions whose logits the script reads: LAST, SOME from a computed one on, else
        UNKNOWN."""
        return positions_read(self, forward)

    def gets_cache(self, forward: Forward) -> bool:
        """Whether a forward pass gets keys and values of other tokens."""
        return gets_cache(forward)

    def fillers_of_cache(self, forward: Forward) -> tuple[Forward, ...]:
        """The forward passes that made the keys and values that another one gets."""
        return fillers_of_cache(self, forward)

    def are_of_one_model(self, first: Forward, second: Forward) -> bool:
        """Whether two forward passes certainly run the same model."""
        objects = set(map(id, first.facts.objects))
        return any(id(one) in objects for one in second.facts.objects)

    # -- facts -----------------------------------------------------------------------------------

    @cached_property
    def uses_unsloth(self) -> bool:
        """Unsloth owns checkpointing, the loss and padding of what it trains."""
        if self.imports_package("unsloth", "unsloth_zoo"):
            return True
        # ``experiment.load_unsloth_model()``: it is imported elsewhere.
        return any("unsloth" in method for method in self._by_method)

    @cached_property
    def off_cuda(self) -> bool:
        """Whether the script says that it trains on CPU, Apple, TPU, Trainium or Gaudi."""
        if self.imports_package("torch_xla", "optimum", "torch_neuronx", "jax", "mlx", "mlx_lm"):
            return True
        text = self.source.text
        if any(word in text for word in _FOR_TPU) and re.search(_INSTALLS, text):
            return True
        for config in self.configs:
            for name in ("use_cpu", "no_cuda", "use_mps_device"):
                if config.setting(name).value is True:
                    return True
        for accelerator in self.calls_to("accelerate.Accelerator"):
            if accelerator.setting("cpu").value is True:
                return True
        return self._loads_on_cpu

    @property
    def _loads_on_cpu(self) -> bool:
        """Whether every model is put on the CPU, where trainers leave it, and none is moved."""
        places = [load.setting("device_map").value for load in self.model_loads]
        if not places or any(place != "cpu" for place in places):
            return False
        return not any(
            isinstance(call.node.func, ast.Attribute)
            and "model" in ast.unparse(call.node.func.value)
            for call in self.method_calls("to", "cuda")
        )

    @cached_property
    def uses_vision(self) -> bool:
        """Whether images go into what it trains."""
        return any(
            word in name
            for name in self._by_name
            if name.startswith("transformers.")
            for word in ("AutoProcessor", "ImageProcessor", "Vision2Seq", "ImageTextToText")
        ) or any("Vision" in full or _sees(full) for _, _, full in self.imports)

    @cached_property
    def uses_diffusion(self) -> bool:
        """Whether it trains a diffusion model, whose text encoder wants fixed lengths."""
        return self.imports_package("diffusers")

    @cached_property
    def trains_language_models(self) -> bool:
        """Whether definitely nothing but language models is trained."""
        if self.training:
            return all(trainer.trains_language_model for trainer in self.training)
        return bool(self.model_loads) and all(map(is_language_model, self.model_loads))

    @cached_property
    def learns_prompts(self) -> bool:
        """Whether an adapter of learned tokens is trained, for which PEFT drops the positions."""
        return learns_prompts(self)

    @cached_property
    def sets_attention(self) -> bool:
        """Whether the script changes a model's attention by other means than its loading."""
        return sets_attention(self)

    @cached_property
    def compiles_one_shape(self) -> bool:
        """Whether something is compiled for one shape, which other lengths would compile again."""
        if any(config.setting("torch_compile").value is True for config in self.configs):
            return True
        compiles = self.calls_to("torch.compile", "torch.cuda.CUDAGraph", "torch.cuda.graph")
        return any(call.setting("dynamic").value is not True for call in compiles)

    @cached_property
    def trains_causal_lm(self) -> bool | None:
        """Whether a causal language model is trained; None where the script is not clear."""
        answers = {trainer.model.causal_lm for trainer in self.trainers}
        if any(trainer.kind.startswith("trl.") for trainer in self.trainers):
            return True
        if answers and None not in answers:
            return True in answers if len(answers) == 1 else None
        loaders = {"CausalLM" in load.name or "LMHead" in load.name for load in self.model_loads}
        return loaders.pop() if len(loaders) == 1 else None

    def without_gradients(self, node: ast.Call) -> bool:
        """Whether a call definitely runs without autograd, on paths that no run reaches too."""
        call = self.call_at(node)
        return call.without_gradients if call is not None else is_off_around(self.ancestors(node))

    def is_off_by_default(self, node: ast.AST) -> bool:
        """Whether the defaults of a command line or a function keep ``node`` from running."""
        return is_off_by_default(self, node)

    @cached_property
    def avoids_logits(self) -> bool:
        """Whether anything in the script spares full logits, for whichever model."""
        return avoids_logits(self)

    @property
    def checkpointing_call(self) -> Call | None:
        """The last call that turns checkpointing on, where it trains and no trainer does so."""
        return deciding_call(self)

    def takes_parameter(self, node: ast.expr) -> bool:
        """Whether an expression reads a parameter of a function around it, which callers choose."""
        return takes_parameter(self, node)


_FOR_TPU = ("torch_xla", "torch-xla", "cloud-tpu-client")
_INSTALLS = r"(?m)^(?!\s*#)[^\n]*pip3? +install[^\n]*(torch[_-]xla|cloud-tpu-client)"
_NOT_TRAINING = frozenset({"trl.ModelConfig", "trl.ScriptArguments", "trl.DatasetMixtureConfig"})
# Models of that suffix that read text alone, or speech; the others read images.
_TEXT_TO_TEXT = (
    "T5",
    "Bart",
    "BART",
    "Pegasus",
    "LED",
    "Switch",
    "Blenderbot",
    "M2M",
    "FSMT",
    "ProphetNet",
    "Nllb",
    "Mvp",
    "Whisper",
    "Speech",
)
_NOT_MODELS = ("Tokenizer", "Processor", "Config", "FeatureExtractor")


def _sees(name: str) -> bool:
    """Whether a class is a multimodal model: ``Mistral3ForConditionalGeneration``."""
    model = name.rpartition(".")[2]
    return (
        name.startswith("transformers.")
        and model.endswith("ForConditionalGeneration")
        and not any(part.lower() in model.lower() for part in _TEXT_TO_TEXT)
    )


def build_script(
    source: Source, api: Api, project: Project | None = None, *, launched: bool = False
) -> Script:
    """Read a script; with ``project``, what it calls of the files around it as well.

    launched: the text ends with an assignment of the dict that a launch command gives to the
    script (``memlint.script.command_line``).

    Raises SyntaxError as ``ast.parse`` does, and RecursionError where it is nested too deeply.
    """
    tree = compile(
        source.text,
        source.path,
        "exec",
        ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    assert isinstance(tree, ast.Module)
    command_line: CommandLine | None = None
    if launched:
        given = tree.body[-1]
        assert isinstance(given, ast.Assign)
        assert isinstance(given.value, ast.Dict)
        command_line = CommandLine(
            given.value, lambda name, option: api.history(api.canonical(name), option) is not None
        )
    run = Interpreter(_HANDLERS, project, command_line)
    run.run(tree)
    return Script(source, tree, api, run)


__all__ = ["ABSENT", "Loop", "Script", "build_script"]
