"""Calls as rules see them: one per place in the script, all its evaluations joined."""

from __future__ import annotations

import ast
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Self

from memlint.api.drop_ins import stands_in
from memlint.api.settled import OPEN
from memlint.api.signatures import Expression
from memlint.engine.answers import any_of
from memlint.engine.invocations import Invocation
from memlint.engine.modes import in_evaluation_hook
from memlint.engine.values import (
    ABSENT,
    UNKNOWN,
    Binding,
    Class,
    How,
    Object,
    Provenance,
    Value,
    merge,
    merge_bindings,
    options,
)
from memlint.script.checkpointing import (
    is_checkpointed_by_call,
    is_reentrant_by_default,
    switched_on,
)
from memlint.script.model_code import loads_class_of_transformers, trains_class_of_transformers
from memlint.script.optimized import optimizes_all
from memlint.script.packing import packing_strategy
from memlint.script.settings import MISSING, UNSURE, Setting, setting_of, unified
from memlint.script.settled_options import at_birth, is_remade, settled_option, settled_options
from memlint.script.trainers import may_train
from memlint.source import Span

if TYPE_CHECKING:
    from memlint.script.loaded_models import ModelFacts
    from memlint.script.model import Script


class Call:
    """A call at one place.

    name: canonical qualified name of the callee (``trl.SFTConfig``,
        ``transformers.AutoModelForCausalLM.from_pretrained``); for a subclass that the script
        defines, the library class; ``?.method`` for a method of something unknown.
    """

    def __init__(self, script: Script, invocations: list[Invocation]) -> None:
        self.script = script
        self.invocations = invocations
        self.node = invocations[0].node
        self.name = script.api.canonical(invocations[0].name)
        self._settings: dict[str, Setting] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} line {self.node.lineno}>"

    def as_call_of(self, name: str) -> Self:
        """The same call with another callee: what took the place of one that is gone."""
        made = copy(self)
        made.name = name
        made._settings = {}
        for known in ("positions", "_all_settings", "_notable_settings"):
            vars(made).pop(known, None)
        return made

    @property
    def span(self) -> Span:
        return self.script.span(self.node)

    @property
    def method(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def conditional(self) -> bool:
        """True if an undecided condition guards it."""
        return any(invocation.conditional for invocation in self.invocations)

    @property
    def in_loop(self) -> bool:
        """True if a loop repeats it (in this function or one that calls it)."""
        return any(invocation.in_loop for invocation in self.invocations)

    @property
    def contexts(self) -> tuple[str, ...]:
        """Canonical names of the context managers and decorators that it always runs under."""
        common = set(self.invocations[0].contexts)
        for invocation in self.invocations[1:]:
            common &= set(invocation.contexts)
        return tuple(
            self.script.api.canonical(name)
            for name in self.invocations[0].contexts
            if name in common
        )

    @property
    def without_gradients(self) -> bool:
        """True if no backward pass definitely follows wherever it is evaluated: autograd is off, or
        a library evaluates."""
        return all(
            invocation.gradients is False or in_evaluation_hook(invocation.function)
            for invocation in self.invocations
        )

    @property
    def subclass(self) -> ast.ClassDef | None:
        """The script's own class that is instantiated here, if it is one."""
        return self.invocations[0].subclass

    @property
    def order(self) -> int:
        return self.invocations[0].order

    @cached_property
    def receiver(self) -> Value | None:
        """The value whose method is called."""
        values = [
            invocation.receiver
            for invocation in self.invocations
            if invocation.receiver is not None
        ]
        return unified(merge(values)) if values else None

    @property
    def is_partial(self) -> bool:
        """True if what it calls brings arguments along, as ``functools.partial`` makes it."""
        return any(invocation.is_partial for invocation in self.invocations)

    @property
    def has_unknown_keywords(self) -> bool:
        """True if keywords may be given that the model cannot see."""
        return any(
            invocation.open_keywords or invocation.open_arguments for invocation in self.invocations
        )

    @property
    def loads_own_code(self) -> bool:
        """True if what it loads may be of a class that comes with the checkpoint or project."""
        return not loads_class_of_transformers(self)

    @cached_property
    def positions(self) -> tuple[str, ...]:
        """Names of the parameters that can be given by position, in order."""
        return self.script.api.positions(self.name)

    def argument(self, index: int) -> Value:
        """The positional argument at ``index``; ABSENT where there is none."""
        return merge(
            invocation.arguments[index] if index < len(invocation.arguments) else ABSENT
            for invocation in self.invocations
        )

    def _binding(self, invocation: Invocation, name: str) -> Binding | None:
        binding = invocation.keywords.get(name)
        if binding is not None:
            return binding
        for position, argument in zip(self.positions, invocation.arguments, strict=False):
            if position == name:
                return Binding(argument, How.POSITIONAL, invocation.node)
        return None

    def setting(self, name: str) -> Setting:
        """The setting as the call gets it."""
        known = self._settings.get(name)
        if known is None:
            known = self._settings[name] = setting_of(
                name, self._merged(name), has_unknown_keywords=self.has_unknown_keywords
            )
        return known

    def _merged(self, name: str) -> Binding:
        return merge_bindings([self._binding(invocation, name) for invocation in self.invocations])

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """Names of all keywords that the call may get, in order of appearance."""
        return tuple(
            dict.fromkeys(name for invocation in self.invocations for name in invocation.keywords)
        )

    def settings(self) -> tuple[Setting, ...]:
        """All settings that the call gets by keyword."""
        return self._all_settings

    def notable_settings(self) -> tuple[Setting, ...]:
        """Those of options of which the tables know more than that the target takes them."""
        return self._notable_settings

    @cached_property
    def _notable_settings(self) -> tuple[Setting, ...]:
        plain = self.script.api.is_plain
        return tuple(self.setting(name) for name in self.keywords if not plain(self.name, name))

    @cached_property
    def _all_settings(self) -> tuple[Setting, ...]:
        return tuple(self.setting(name) for name in self.keywords)

    def effective(self, name: str) -> Setting:
        """The setting, or the target version's default where it is not given."""
        setting = self.setting(name)
        if setting.given is not False:
            return setting
        return self._default(name)

    def _default(self, name: str) -> Setting:
        signature = self.script.api.signature(self.name)
        parameter = signature.parameters.get(name) if signature is not None else None
        if parameter is None:
            missing = signature is not None and not signature.accepts_any
            return Setting(name, False, MISSING if missing else UNSURE, Provenance.LIBRARY)
        value = parameter.default
        if parameter.required or isinstance(value, Expression):
            return Setting(name, False, UNSURE, Provenance.LIBRARY)
        return Setting(name, False, value, Provenance.LIBRARY)

    def has_option(self, name: str) -> bool:
        """True if the callee takes the option in the target version."""
        signature = self.script.api.signature(self.name)
        return signature is not None and name in signature.parameters

    @property
    def optimizes_all(self) -> bool:
        """True if this optimizer certainly gets all parameters of a model."""
        return optimizes_all(self.script, self)

    def keyword_node(self, name: str) -> ast.keyword | None:
        """The keyword as it stands in this very call."""
        return next((one for one in self.node.keywords if one.arg == name), None)


class Config(Call):
    """A training configuration: ``TrainingArguments`` or a TRL config, however it is made.

    Settings are those in force when a trainer gets it, or at the end of the script: attributes
    assigned after construction count, with ``how`` ATTRIBUTE.
    """

    def __init__(self, script: Script, invocations: list[Invocation], made: list[Object]) -> None:
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
                binding = self._positional(name)
            bindings.append(binding)
        merged = merge_bindings(bindings)
        return Binding(UNKNOWN) if merged.value is ABSENT and self._is_launched(name) else merged

    def _is_launched(self, name: str) -> bool:
        """True if a launcher gives an option that the script does not, or may."""
        engine = self.script.launcher.engine
        return engine == name or (engine == "unknown" and name in ("deepspeed", "fsdp"))

    def when_made(self, name: str) -> Setting:
        """The setting as its making reads it: some attributes are assigned too late for that."""
        return at_birth(self, name)

    def settled(self, name: str) -> Setting:
        """The setting as the configuration leaves it once it has them all (``__post_init__``)."""
        setting = at_birth(self, name)
        if name not in self._settled:
            return setting
        value = self._settled[name]
        if value is setting.value:
            return setting
        return setting._replace(value=UNSURE if value is OPEN else value)

    @cached_property
    def _settled(self) -> dict[str, object]:
        return settled_options(self)

    @property
    def checkpointing(self) -> bool | None:
        """True if it turns activation checkpointing on at the target; None where unknown."""
        return switched_on(self)

    @property
    def packing(self) -> str | None:
        """The packing strategy, ``padding_free`` for that alone; None where neither is on."""
        return packing_strategy(self)

    @property
    def skips_preparation(self) -> bool | None:
        """True if the trainer is told to leave the data as they are; None where it may be."""
        return skips_preparation(self)

    def declares(self, name: str) -> bool:
        """True if it is of a class of the script's own that has this option as a field."""
        return any(one.cls is not None and name in _declared(one.cls) for one in self.made)

    def first(self, name: str) -> Setting:
        """The setting as the call that makes it gets it, by the version's default too."""
        setting = setting_of(
            name, super()._merged(name), has_unknown_keywords=self.has_unknown_keywords
        )
        return setting if setting.given is not False else self._default(name)

    @property
    def is_remade(self) -> bool:
        """True if a trainer makes another configuration out of it."""
        return is_remade(self)

    def _positional(self, name: str) -> Binding | None:
        return merge_bindings([self._binding(invocation, name) for invocation in self.invocations])

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


class Trainer(Call):
    """A trainer of transformers or TRL, with the configuration and the model that it gets."""

    def __init__(self, script: Script, invocations: list[Invocation], kind: str) -> None:
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
        return self.script.model_facts(setting.raw if setting.given is not False else ABSENT)

    @cached_property
    def checkpoint(self) -> str | None:
        """The checkpoint that the script writes for its model; None where it may be another, as
        the default of a command line."""
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
        """The plain name that its model has where the trainer is made; None where it has none."""
        given = self.keyword_node("model")
        node = given.value if given is not None else next(iter(self.node.args), None)
        return node.id if isinstance(node, ast.Name) else None

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
        return settled_option(self, option)

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
        return is_checkpointed_by_call(self.script, self)

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
        return not trains_class_of_transformers(self)

    @property
    def trains_language_model(self) -> bool:
        """True if it definitely trains a language model worth its memory. TRL's do nothing else."""
        if self.model.is_toy:
            return False
        return self.kind.startswith("trl.") or self.model.loads_language_model

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
    given = call.setting("dataset_kwargs")
    if given.given is False or given.is_none:
        return False
    if not isinstance(given.value, Object) or given.value.type != "dict":
        return None
    skip = call.script.item(given.value, "skip_prepare_dataset")
    return False if skip is MISSING else skip if isinstance(skip, bool) else None
