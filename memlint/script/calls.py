"""Calls as rules see them: one per place in the script, all its evaluations joined."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from memlint.api.drop_ins import stands_in
from memlint.api.settled import OPEN
from memlint.api.signatures import Expression
from memlint.engine.answers import any_of
from memlint.engine.values import (
    ABSENT,
    UNKNOWN,
    Binding,
    Class,
    How,
    Invocation,
    Object,
    merge_bindings,
    options,
)
from memlint.script.call_settings import MISSING, UNSURE, Setting, setting_of
from memlint.script.called import Call, Called
from memlint.script.checkpointing import (
    is_checkpointed_by_call,
    is_checkpointed_by_fsdp,
    is_reentrant_by_default,
    switched_on,
)
from memlint.script.loaded_models import ModelFacts, model_facts
from memlint.script.trainers import TrainerUse, may_train

# What is read only when the configuration is made: a later assignment changes nothing.
_READ_ONCE = ("bf16", "fp16", "tf32")
_REMOTE = "trust_remote_code"
_OFF = (MISSING, None, False)


class Host(Called):
    """What configurations and trainers ask of the script that makes them.

    config_of: the configuration that an object is, or is a copy of. trainers_with: the trainers
    that get a configuration. trainer_uses: what is done with a trainer: it is called, or handed to
    a call. trainer_invocations: the calls that make trainers, as they were evaluated.
    """

    config_of: Callable[[Object], Config | None]
    trainers_with: Callable[[Config], tuple[Trainer, ...]]
    trainer_uses: Callable[[Trainer], list[TrainerUse]]
    trainer_invocations: cached_property[list[Invocation]]


class Config(Call):
    """A training configuration: ``TrainingArguments`` or a TRL config, however it is made.

    Settings are those in force when a trainer gets it, or at the end of the script: attributes
    assigned after construction count, with ``how`` ATTRIBUTE.
    """

    script: Host

    def __init__(self, script: Host, invocations: list[Invocation], made: list[Object]) -> None:
        super().__init__(script, invocations)
        self.made = made
        kinds = [one.type for one in made if one.type]
        self.name = script.api.canonical(kinds[0] if kinds else invocations[0].name)
        self.from_command_line = any(one.from_command_line for one in made)

    @property
    def kind(self) -> str:
        """Canonical name of its class."""
        return self.name

    @property
    def has_unknown_keywords(self) -> bool:
        return any(one.open for one in self.made) or (
            not self.from_command_line and super().has_unknown_keywords
        )

    @cached_property
    def _snapshots(self) -> list[dict[str, Binding]]:
        """Its bindings, by run: when a trainer got it, else at the end."""
        taken = [
            invocation.snapshots[id(one)]
            for one in self.made
            for invocation in self.script.trainer_invocations
            if id(one) in invocation.snapshots
        ]
        return taken or [self.script.final_bindings(one) for one in self.made]

    def _merged(self, name: str) -> Binding:
        bindings = []
        for snapshot in self._snapshots:
            binding = snapshot.get(name)
            if binding is None and not self.from_command_line:
                binding = super()._merged(name)
            bindings.append(binding)
        merged = merge_bindings(bindings)
        return Binding(UNKNOWN) if merged.value is ABSENT and self._is_launched(name) else merged

    def _is_launched(self, name: str) -> bool:
        """True if a launcher gives an option that the script does not, or may."""
        engine = self.script.launcher.engine
        return engine == name or (engine == "unknown" and name in ("deepspeed", "fsdp"))

    def leaves_out(self, name: str, *, heeds_recipes: bool = False) -> bool:
        """True if nothing gives an option: no file of the project names it, where keywords of which
        nothing is known may, or (``heeds_recipes``) a command line."""
        given, project = self.setting(name).given, self.script._run.project
        if given is not None or (self.from_command_line and not (heeds_recipes and project)):
            return given is not True
        said = project.says(name) if project is not None else None
        return not said if self.from_command_line else said is False

    def when_made(self, name: str) -> Setting:
        """The setting as its making reads it: some attributes are assigned too late for that."""
        setting = self.setting(name)
        late = setting.how is How.ATTRIBUTE and not self.from_command_line and not self.is_remade
        return self.first(name) if late and name in _READ_ONCE else self.effective(name)

    def settled(self, name: str) -> Setting:
        """The setting as the configuration leaves it once it has them all (``__post_init__``)."""
        setting = self.when_made(name)
        if name not in self._settled:
            return setting
        value = self._settled[name]
        if value is setting.value:
            return setting
        return setting._replace(value=UNSURE if value is OPEN else value)

    @cached_property
    def _settled(self) -> dict[str, object]:
        """The options that it assigns itself, and what they are then."""

        def read(name: str) -> object:
            if not self.has_option(name):
                return None  # of older releases: nobody can have switched it on
            value = self.when_made(name).value
            unknown = isinstance(value, Object) and value.type is None
            return OPEN if unknown or value is UNSURE or value is MISSING else value

        return self.script.api.settle(self.kind, read)

    @property
    def checkpointing(self) -> bool | None:
        """True if it turns activation checkpointing on at the target; None where unknown."""
        return switched_on(self)

    @property
    def checkpointed_by_fsdp(self) -> bool | None:
        """True if it has FSDP checkpoint the layers that it shards; None where it may."""
        return is_checkpointed_by_fsdp(self.script, self)

    @property
    def packing(self) -> str | None:
        """The packing strategy, ``padding_free`` for that alone; None where neither is on."""
        if self.setting("packing").value is True:
            if not self.has_option("packing_strategy"):
                return "wrapped"
            strategy = self.settled("packing_strategy").value
            return strategy if isinstance(strategy, str) else None
        if self.setting("padding_free").value is True and self.has_option("padding_free"):
            return "padding_free"
        return None

    @property
    def skips_preparation(self) -> bool | None:
        """True if the trainer is told to leave the data as they are; None where it may be."""
        return skips_preparation(self)

    def notable_settings(self) -> tuple[Setting, ...]:
        """Those of options of the library: none that a class of the script's own has as a field."""
        own = {name for one in self.made if one.cls is not None for name in _declared(one.cls)}
        return tuple(each for each in super().notable_settings() if each.name not in own)

    def first(self, name: str) -> Setting:
        """The setting as the call that makes it gets it, by the version's default too."""
        setting = setting_of(
            name, super()._merged(name), has_unknown_keywords=self.has_unknown_keywords
        )
        return setting if setting.given is not False else self._default(name)

    @property
    def is_remade(self) -> bool:
        """True if a trainer of TRL makes a configuration of its own out of plain arguments."""
        trainers = self.script.trainers_with(self)
        plain = self.kind.startswith("transformers.")
        return plain and any(trainer.kind.startswith("trl.") for trainer in trainers)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self._snapshots for name in one))


def _declared(cls: Class) -> set[str]:
    """The annotated names in the body of a class and of its bases within the script."""
    names = {
        statement.target.id
        for statement in cls.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    return names.union(*(_declared(base) for base in cls.bases if isinstance(base, Class)))


_UNSORTED = (False, "random", "sequential")


class Trainer(Call):
    """A trainer of transformers or TRL, with the configuration and the model that it gets."""

    script: Host

    def __init__(self, script: Host, invocations: list[Invocation], kind: str) -> None:
        super().__init__(script, invocations)
        self.name = kind

    @property
    def kind(self) -> str:
        """Canonical name of its class."""
        return self.name

    @property
    def shares_prompts(self) -> bool:
        """True if it is the runtime's, which forwards every prompt once."""
        return any(stands_in(invocation.name) for invocation in self.invocations)

    @property
    def may_sort_rows(self) -> bool:
        """True if rows of like lengths may come together, so that hardly any of them is padded."""
        names = ("group_by_length", "train_sampling_strategy")
        given = [self.config.setting(name) for name in names] if self.config is not None else []
        return any(one.given is not False and one.value not in _UNSORTED for one in given)

    @property
    def skips_preparation(self) -> bool | None:
        """True if it is told to leave the data as they are; None where it may be."""
        holders = [one for one in (self, self.config) if one is not None]
        return any_of(skips_preparation(one) for one in holders)

    @property
    def collator(self) -> Call | None:
        """The call that makes its collator, where the script gives it one."""
        made = self.setting("data_collator").value
        made_by = made.made_by if isinstance(made, Object) else None
        return self.script.call_at(made_by.node) if made_by is not None else None

    @property
    def prepares_rows(self) -> bool:
        """True if it tokenizes by itself whatever it gets: TRL's, but for ``SFTTrainer``."""
        return self.kind.startswith("trl.") and self.kind != "trl.SFTTrainer"

    @property
    def brings_optimizer(self) -> bool:
        """True if it is given an optimizer, or a class of one, or may be."""
        given = (self.setting(name) for name in ("optimizers", "optimizer_cls_and_kwargs"))
        return any(one.given is not False and not one.is_none for one in given)

    @cached_property
    def trains(self) -> bool:
        """True if it may train; False where it definitely only evaluates, predicts or saves."""
        return may_train(self, self.script.trainer_uses(self), self.script.method_calls("train"))

    @cached_property
    def args(self) -> Setting:
        """What it gets as ``args``."""
        return self.setting("args")

    @cached_property
    def config(self) -> Config | None:
        """Its configuration, where the script makes it in one place; None where that is unknown."""
        made = self.args.value
        if isinstance(made, Object):
            return self.script.config_of(made)
        # ``parse_json_file()`` on one path, ``parse_args_into_dataclasses()`` on another.
        found = options(self.args.raw)
        configs = [self.script.config_of(one) for one in found if isinstance(one, Object)]
        known = [one for one in configs if one is not None and one.from_command_line]
        alike = len(known) == len(found) and len({one.kind for one in known}) == 1
        return known[-1] if alike else None

    @cached_property
    def model(self) -> ModelFacts:
        """What is known of the model that it trains."""
        setting = self.setting("model")
        return model_facts(self.script, setting.raw if setting.given is not False else ABSENT)

    @cached_property
    def checkpoint(self) -> str | None:
        """The checkpoint that the script writes for its model; None where it may be another."""
        given = self.setting("model")
        if self.model.load is not None:
            given = self.model.load.setting("pretrained_model_name_or_path")
        return (
            given.value
            if isinstance(given.value, str) and not given.is_overridable_default
            else None
        )

    @property
    def model_name(self) -> str | None:
        """The name of its model where the trainer is made, ``self.model`` too; None without one."""
        given = self.keyword_node("model")
        node = given.value if given is not None else next(iter(self.node.args), None)
        if isinstance(node, ast.Name):
            return node.id
        text = self.script.text(node) if node is not None else ""
        name = text.removeprefix("self.")
        computed = any(one.name == name for one in self.script.functions)
        return text if name != text and name.isidentifier() and not computed else None

    def number(self, option: str) -> int | None:
        """A positive whole number of its configuration, by the version's default too."""
        if self.config is not None:
            value = self.config.effective(option).value
        elif self.args.given is False:
            config = self.script.api.config_of(self.kind)
            signature = self.script.api.signature(config) if config else None
            parameter = signature.parameters.get(option) if signature else None
            value = parameter.default if parameter else None
        else:
            return None
        return value if type(value) is int and value > 0 else None

    def settled(self, option: str) -> object:
        """An option as its configuration leaves it, that which it makes itself where it gets none;
        UNSURE where that cannot be told."""
        config, api = self.config, self.script.api
        if config is not None and config.has_option(option):
            return config.settled(option).value
        kind = api.config_of(self.kind)
        signature = api.signature(kind) if kind is not None else None
        if kind is None or signature is None or (config is None and self.args.given is not False):
            return UNSURE

        def read(name: str) -> object:
            parameter = signature.parameters.get(name)
            if parameter is None:
                return None
            default = OPEN if parameter.required else parameter.default
            return OPEN if isinstance(default, Expression) else default

        value = api.settle(kind, read).get(option, read(option))
        return UNSURE if value is OPEN else value

    def is_kind(self, *names: str) -> bool:
        """True if it is one of TRL's trainers of these names, wherever the version keeps them."""
        return self.kind.startswith("trl.") and self.kind.rpartition(".")[2] in names

    @cached_property
    def evaluates_on_schedule(self) -> bool:
        """True if its configuration definitely evaluates while it trains."""
        return self.config is not None and any(
            self.config.setting(name).is_value("steps", "epoch")
            for name in ("eval_strategy", "evaluation_strategy")
        )

    @cached_property
    def checkpointed_by_call(self) -> bool | None:
        """True if a call of the script, not the configuration, turns checkpointing on or may.

        None for a model from elsewhere, of which nobody can tell.
        """
        return is_checkpointed_by_call(self.script, self.model, self.config)

    @property
    def reentrant_by_default(self) -> bool:
        """True if its activation checkpointing is reentrant at the target unless told otherwise."""
        return is_reentrant_by_default(self.script, self)

    @property
    def loading_options(self) -> Setting:
        """The options with which it loads a model that is given by name, wherever they are given:
        they were the trainer's in older versions."""
        given = self.setting("model_init_kwargs")
        return given if self.config is None or given.given else self.config.setting(given.name)

    @property
    def trains_own_code(self) -> bool:
        """True if its model may be of a class that comes with the checkpoint or the project."""
        return not _trains_class_of_transformers(self)

    @property
    def trains_language_model(self) -> bool:
        """True if it definitely trains a language model worth its memory. TRL's do nothing else."""
        if self.model.is_toy:
            return False
        return self.kind.startswith("trl.") or self.model.is_stack_of_layers

    @cached_property
    def peft(self) -> bool | None:
        """True if it trains adapters; None where the model cannot tell."""
        setting = self.setting("peft_config")
        value = setting.value
        # What a function elsewhere returns (TRL's ``get_peft_config``) may be None.
        unsure = value is UNSURE or (isinstance(value, Object) and value.type is None)
        if setting.given is True and value is not None and not unsure:
            return True
        unsure = unsure or setting.given is None
        model = self.model
        if model.peft:
            return True
        return None if unsure or model.peft is None else False


def skips_preparation(call: Call) -> bool | None:
    """``dataset_kwargs={"skip_prepare_dataset": True}``; None where nobody can tell."""
    skip = call.script.item(call.setting("dataset_kwargs").value, "skip_prepare_dataset")
    return False if skip is MISSING else skip if isinstance(skip, bool) else None


# -- whose code a model is -------------------------------------------------------------------------


def _trains_class_of_transformers(trainer: Trainer) -> bool:
    """True if a trainer's model is certainly of a class that transformers has, by name too."""
    if not trainer.model.by_name:
        loads = trainer.model.loads
        return bool(loads) and not any(load.loads_own_code for load in loads)
    if trainer.args.given is not False and trainer.config is None:
        return False
    holders = [trainer, trainer.config] if trainer.config is not None else [trainer]
    loaded = [holder.setting("model_init_kwargs").value for holder in holders]
    return (
        all(holder.setting(_REMOTE).value in _OFF for holder in holders)
        and all(trainer.script.item(options, _REMOTE) in _OFF for options in loaded)
        and not trainer.script._registers_models
    )
