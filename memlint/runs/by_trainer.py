"""The record of a run that a trainer makes: its configuration, and what its calls decide."""

from memlint.engine.nodes import Node
from memlint.engine.project import are_of_one_file, is_elsewhere, place_of_setting
from memlint.engine.values import Object
from memlint.runs.by_loop import in_eight_bits, offloading, optimizer_of, wide_states
from memlint.runs.changes import set_item, set_option, together
from memlint.runs.precision import (
    FLOAT32,
    dtype_node,
    load_by_name_in,
    may_lack_bf16,
    read_load,
    trains_without_bf16,
    write_load,
)
from memlint.runs.run import NOWHERE, Change, Field, span_in
from memlint.runs.runtime_calls import call_after_trainer
from memlint.runs.trainer_batches import TrainerWithLoss
from memlint.script.call_settings import UNSURE, Setting
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS, SWITCHES, runs_hooks_twice
from memlint.script.model import Script
from memlint.script.setups import trainer_of
from memlint.script.trained import may_be_trained
from memlint.source import Span
from memlint.source.patterns import lazy_pattern

_NON_REENTRANT = '{"use_reentrant": False}'

_MIXED = ("bf16", "fp16")
# Optimizers whose states have the dtype of the weights, and those with float32 ones.
_FOLLOWS_WEIGHTS = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adam", "adamw")
_WIDE_STATES = ("adamw_apex_fused", "paged_adamw_32bit", "paged_adamw")
_EIGHT_BIT = "adamw_bnb_8bit"
_IN_BACKWARD = "step_trainer_in_backward"
# What divides gradients over GPUs, or says more of the optimizer.
_DECIDING = ("deepspeed", "fsdp", "optim_args")
# Folders of runs of one's own, whose names say no size.
_OF_OWN_RUN = lazy_pattern(
    r"(\.{0,2}/)*(checkpoints?|ckpts?|outputs?|results?|runs?|saved_models?)(/|$)"
)


class TrainerRun(TrainerWithLoss):
    """What one trainer trains."""

    # -- checkpointing ---------------------------------------------------------------------------

    def read_checkpointing(self) -> Field:
        """Of the configuration, where no call decides beside it."""
        config = self.config
        if config is None or not all(map(self._trains_layers, self.trainers)):
            return Field()
        setting, _ = _switch(config)
        on = config.checkpointing
        if any(trainer.checkpointed_by_call is not False for trainer in self.trainers):
            on = None
        value = UNSURE if on is None else "full" if on else "none"
        name = config.kind.rpartition(".")[2]
        said = f"`{name}` leaves activation checkpointing off"
        place = span_in(self.script, config.node.func)
        if setting.given:
            by = f" by its {setting.origin}" if setting.is_overridable_default else ""
            said = f"`{setting.name}` is off{by}" if by else f"`{setting.name}=False`"
            place = self._place(setting, config.node)
        if any(trainer.model.kbit for trainer in self.trainers):
            said += ", and the k-bit preparation does not turn it on here"
        pending = not setting.given and self._waits_for_its_class(config)
        return Field(value, place, said, pending)

    def _trains_layers(self, trainer: Trainer) -> bool:
        """True if it definitely trains a language model, or a whole encoder with a head."""
        model, frozen = trainer.model, self.script.sets("requires_grad", "requires_grad_")
        return trainer.trains_language_model or (model.is_encoder and not (model.is_toy or frozen))

    def read_reentrant(self) -> Field:
        """Of checkpointing that the configuration turns on."""
        script, config = self.script, self.config
        if config is None or not config.checkpointing:
            return Field()
        given = [config.setting(name) for name in ARGUMENTS]
        if all(one.given is False or (one.given and one.is_none) for one in given):
            default = all(trainer.reentrant_by_default for trainer in self.trainers)
            known = default and any(map(config.has_option, ARGUMENTS))
            said = "checkpointing is reentrant by the default of this version"
            return Field(True if known else UNSURE, span_in(script, config.node.func), said)
        options = reentrant_options(script, given)
        if options is None:
            return Field()
        return Field(
            True,
            span_in(script, options.node or config.node),
            "checkpointing is set to be reentrant",
        )

    def write_reentrant(self, value: bool) -> Change:
        """The option of the dict, or a dict. What it left untrained would be trained then."""
        script, config = self.script, self.config
        assert config is not None
        options = reentrant_options(script, [config.setting(name) for name in ARGUMENTS])
        if options is not None:
            edits = set_item(script, options, "use_reentrant", str(value))
            message = f"Set `use_reentrant` to {value}"
        else:
            name = next(filter(config.has_option, ARGUMENTS))
            edits = set_option(script, config, name, _NON_REENTRANT)
            message = f"Set `{name}={_NON_REENTRANT}`"
        unsafe = script.sets("requires_grad", "requires_grad_")
        return Change({"checkpointing": "non_reentrant"}, message, edits, unsafe)

    def _waits_for_its_class(self, config: Config) -> bool:
        """True if plain arguments go to a TRL trainer, whose own class would checkpoint."""
        if config.kind.startswith("trl."):
            return False
        kinds = [one.kind for one in self.trainers if one.kind.startswith("trl.")]
        api = self.script.api
        signatures = [api.signature(kind.removesuffix("Trainer") + "Config") for kind in kinds]
        return any(
            name in signature.parameters and signature.parameters[name].default is True
            for signature in signatures
            if signature is not None
            for name in SWITCHES
        )

    def write_checkpointing(self, value: str) -> Change:
        """On, of the kind that trains adapters; a script's own ``False`` stays."""
        config = self.config
        assert config is not None
        setting, newest = _switch(config)
        decided = setting.given and setting.value is False and not setting.is_overridable_default
        edits = set_option(self.script, config, setting.name, "True")
        message = f"Set `{setting.name if edits and not decided else newest}=True`"
        if any(_starves_adapters(config, trainer) for trainer in self.trainers):
            name = next(filter(config.has_option, ARGUMENTS), ARGUMENTS[-1])
            edits = together(edits, set_option(self.script, config, name, _NON_REENTRANT))
            message += f" and `{name}={_NON_REENTRANT}`: no gradient passes a frozen input"
        doubt = self._doubt_of_class()
        doubt += runs_hooks_twice(self.script)
        changed, message = {"checkpointing": value}, message + doubt
        return Change(changed, message, None if decided else edits, bool(doubt))

    def _doubt_of_class(self) -> str:
        """Whether a model's class can checkpoint: classes of other packages raise a ValueError by
        default. Empty for models that are out of sight."""
        known = [one for one in self.trainers if one.model.by_name or one.model.loads]
        if any(trainer.trains_own_code for trainer in known):
            return ", if the model's class supports it: its code is not transformers' own"
        sure = all(trainer.model.can_checkpoint for trainer in known)
        return "" if sure else ", if the model's class supports it"

    # -- the optimizer ---------------------------------------------------------------------------

    def read_optimizer(self) -> Field:
        """Adam with float32 states of all weights."""
        model = self.trained
        optimizer = model.optimizer if model is not None else None
        if model is None or not self.trains_all_weights:
            return Field()
        if self.billions is None and _OF_OWN_RUN.match(self.trainer.model.checkpoint):
            return Field()  # how large it is, no name says
        if optimizer is None:
            return wide_states(self.script, optimizer_of(self.trainer), model)
        follows = optimizer.is_value(*_FOLLOWS_WEIGHTS) and model.dtype == FLOAT32
        is_wide = follows or optimizer.is_value(*_WIDE_STATES)
        value = "adamw_torch" if is_wide else UNSURE
        return Field(value, self._place(optimizer, model.place), f"`{optimizer.value}`")

    def write_optimizer(self, value: str) -> Change:
        """The option, where the version knows such an optimizer."""
        script, config, changed = self.script, self.config, {"optimizer": _EIGHT_BIT}
        if self.trainer.brings_optimizer:
            return in_eight_bits(script, optimizer_of(self.trainer))
        if config is None or _EIGHT_BIT not in (script.api.choices(config.kind, "optim") or ()):
            return Change(changed, "Use an Adam with 8-bit states, of a later transformers")
        edits = set_option(script, config, "optim", f'"{_EIGHT_BIT}"')
        message = f'Set `optim="{_EIGHT_BIT}"` (pip install bitsandbytes)'
        return Change(changed, message, edits, True)

    def read_at_once(self) -> Field:
        """True of torch's Adam where the script asks for the one that is not fused, or gets it by
        the default of a version that is known."""
        model = self.trained
        optimizer = model.optimizer if model is not None else None
        idle = not may_be_trained(self.script, self.trainer)
        if model is None or optimizer is None or idle or not self.trains_all_weights:
            return Field()
        # What launches a recipe may shard the states as well.
        asked = optimizer.given is True and place_of_setting(optimizer.node) is None
        target = self.script.api.target
        known = not target.version("transformers").assumed and not target.too_old
        is_recipe = not self.script.source.data
        asked = asked or (optimizer.given is False and known and not is_recipe)
        value = True if asked and optimizer.is_value("adamw_torch") else UNSURE
        span = self._place(optimizer, model.place)
        return self._steps_at_once(value, span, f"`optim={optimizer.value}`")

    def write_at_once(self, value: bool) -> Change:
        """The option, where the version knows it; it rounds 16-bit weights otherwise."""
        script, config, model = self.script, self.config, self.trained
        changed = {"optimizer": "adamw_torch_fused"}
        message = 'Set `optim="adamw_torch_fused"`'
        if config is None or model is None:
            return Change(changed, message)
        known = "adamw_torch_fused" in (script.api.choices(config.kind, "optim") or ())
        edits = set_option(script, config, "optim", '"adamw_torch_fused"') if known else None
        return Change(changed, message, edits, model.dtype != FLOAT32)

    def read_in_backward(self) -> Field:
        """On by the runtime's call too; off where one process trains all weights, and each backward
        pass is a step of a plain optimizer."""
        script, trainer, config = self.script, self.trainer, self.config
        for call in script.method_calls(_IN_BACKWARD):
            stepped = trainer_of(script, call.argument(0))
            if stepped is not None and stepped.node is trainer.node:
                return Field(True, span_in(script, call.node.func))
        named = super().read_in_backward()
        if config is None or trainer.brings_optimizer or named.value is True:
            return named
        scaled = config.setting("fp16").given is not False and config.setting("fp16").value
        decided = any(config.setting(name).given is not False for name in _DECIDING)
        if scaled is not False or decided or not self._is_whole_and_alone:
            return Field()
        return self._keeps_gradients(trainer.node.func)

    @property
    def _is_whole_and_alone(self) -> bool:
        """True if one process trains all weights, and nothing else steps them."""
        script, facts = self.script, self.trainer.model
        several = script.is_sharded or (script.launcher.processes or 1) > 1
        steps = script.method_calls_anywhere(_IN_BACKWARD, "OptimizerInBackward")
        all_plain = (self.trainer.peft, facts.quantized, facts.kbit) == (False, False, False)
        return all_plain and not several and not steps

    def write_in_backward(self, value: bool) -> Change:
        """The runtime's call, without the clipping that it cannot do."""
        if not value:
            return super().write_in_backward(value)
        script, trainer, config = self.script, self.trainer, self.config
        call = call_after_trainer(script, trainer, f"memlint_runtime.{_IN_BACKWARD}", "{}")
        clipped = set_option(script, config, "max_grad_norm", "0") if config is not None else None
        edits = together(call.edits, clipped)
        message = f"{call.message}, with `max_grad_norm=0`" if edits else call.message
        return Change({"in_backward": value}, message, edits, True)

    def read_offloaded_gradients(self) -> Field:
        """By the optimizer that it is given."""
        optimizer = optimizer_of(self.trainer)
        return offloading(self.script, optimizer) if optimizer is not None else Field()

    def _place(self, setting: Setting, call: Node) -> Span:
        """Return where a setting is written, or its call; nowhere where it comes from the file of
        the trainer, and the call is of another: it is told there."""
        written = setting.node or getattr(setting.raw, "node", None) or call
        is_told_there = is_elsewhere(written) and are_of_one_file(written, self.trainer.node)
        return NOWHERE if is_told_there else span_in(self.script, setting.node or call)

    # -- precision -------------------------------------------------------------------------------

    def read_compute_dtype(self) -> Field:
        """float32 where neither option is on. TRL's ``bf16=None`` means on."""
        script, config = self.script, self.config
        if config is None:
            return Field()
        given = [one for one in map(config.setting, _MIXED) if one.given]
        place = next((self._place(one, config.node.func) for one in given), None)
        outside = next((f" ({one.origin})" for one in given if one.is_overridable_default), "")
        said = f"trains in float32, with neither bf16 nor fp16{outside}"
        place = place or span_in(script, config.node.func)
        return Field("float32" if self._is_wide(config) else UNSURE, place, said)

    def _is_wide(self, config: Config) -> bool:
        """True if models in float32 are trained without mixed precision."""
        for name in _MIXED:
            if config.setting(name).given is None or config.settled(name).value not in (
                False,
                None,
            ):
                return False
        # ``accelerate launch`` may turn mixed precision on.
        plain = self.script.launcher.mixed_precision in ("", "no")
        return plain and all(
            not trainer.model.is_toy and self.script.loads_float32(trainer)
            for trainer in self.trainers
        )

    def write_compute_dtype(self, value: str) -> Change:
        """The option that the GPU has, where the configuration is made."""
        config, lacking = self.config, may_lack_bf16(self.script)
        assert config is not None
        changed = {"compute_dtype": "float16" if lacking else value, "autocast": True}
        late = next((name for name in _MIXED if config.setting(name).value is True), None)
        if late is not None:
            message = f"Give `{late}=True` to the configuration where it is made"
            return Change(changed, message)
        if config.setting("fp16").is_overridable_default:
            # Both at once are refused, and the command line may give the other.
            return Change(changed, "Set `bf16=True`, unless fp16 is selected")
        option = "fp16" if lacking else "bf16"
        edits = set_option(self.script, config, option, "True")
        return Change(changed, f"Set `{option}=True`", edits, True)

    def read_weights_dtype(self) -> Field:
        """That of a load of the script, or of the trainer's own."""
        script, trainer = self.script, self.trainer
        load = trainer.model.load
        if trainer.model.is_toy or (load is None and not trainer.model.by_name):
            return Field()
        if load is not None:
            scaled = any(map(_scales_losses, self._trainers_of_load))
            if scaled or script.casts_of(trainer.model):
                return Field()
            read = read_load(script, load, frozen=self._is_frozen)
            setting = script.given_dtype(load)
            return read if setting is None else read._replace(span=self._place(setting, load.node))
        if not self._loads_by_name_in_float32():
            return Field()
        given, options = trainer.setting("model"), trainer.loading_options
        node = dtype_node(script, options) or given.node or trainer.node
        name = trainer.kind.rpartition(".")[2]
        return Field(
            "float32", span_in(script, node), f"`{name}` loads a model given by name in float32"
        )

    @property
    def _trainers_of_load(self) -> list[Trainer]:
        load = self.trainer.model.load
        return [
            one
            for one in self.script.all_training
            if load is not None and one.model.load is not None and one.model.load.node is load.node
        ]

    @property
    def _is_frozen(self) -> bool:
        return all(trainer.peft for trainer in self._trainers_of_load or [self.trainer])

    def _loads_by_name_in_float32(self) -> bool:
        """True if a TRL trainer definitely loads its model in float32."""
        script, trainer, config = self.script, self.trainer, self.config
        if not trainer.kind.startswith("trl.") or _scales_losses(trainer):
            return False
        if not trainer.peft and (may_lack_bf16(script) or script.is_sharded):
            return False
        if script.api.signature(trainer.kind) is None:
            return False  # a trainer that the target does not have loads nothing
        if trainer.args.given is not False and (config is None or config.from_command_line):
            return False
        return script.weights_dtype(trainer) == FLOAT32

    def write_weights_dtype(self, value: str) -> Change:
        """Where the model is loaded."""
        load = self.trainer.model.load
        if load is not None:
            return write_load(self.script, load, value, frozen=self._is_frozen)
        script, trainer, config = self.script, self.trainer, self.config
        options = trainer.loading_options
        lacking = trains_without_bf16(script)
        changed = {"weights_dtype": "float16" if lacking else value}
        written = config is None or config.has_option(options.name)
        if not written or (lacking and not trainer.peft):
            return Change(changed, "Load it in bfloat16, on a GPU that has it")
        dtype = changed["weights_dtype"]
        unsafe = lacking or not trainer.peft or dtype_node(script, options) is not None
        message = f'Set `{options.name}={{"{script.dtype_option()}": "{dtype}"}}`'
        return Change(changed, message, load_by_name_in(script, trainer, dtype), unsafe)


def has_place(trainer: Trainer) -> bool:
    """True if a trainer, its configuration or the load of its model is in this file."""
    calls = (trainer, trainer.config, trainer.model.load)
    return any(one is not None and not is_elsewhere(one.node) for one in calls)


def reentrant_options(script: Script, given: list[Setting]) -> Object | None:
    """The dict among arguments that says ``use_reentrant=True``."""
    for setting in given if all(setting.given is not None for setting in given) else ():
        made = setting.value
        if isinstance(made, Object) and script.item(made, "use_reentrant") is True:
            return made
    return None


def _switch(config: Config) -> tuple[Setting, str]:
    """The switch of checkpointing that is written, or would be, and its name at the target."""
    newest = next(filter(config.has_option, SWITCHES), SWITCHES[1])
    written = [config.setting(name) for name in SWITCHES]
    return next((one for one in written if one.given), config.setting(newest)), newest


def _starves_adapters(config: Config, trainer: Trainer) -> bool:
    """True if checkpointing would be reentrant, over a base that may be frozen."""
    if any(config.setting(name).given is not False for name in ARGUMENTS):
        return False
    return trainer.peft is not False and trainer.reentrant_by_default


def _scales_losses(trainer: Trainer) -> bool:
    """True if all weights are trained with fp16, whose scaled gradients want float32 weights."""
    config = trainer.config
    if trainer.peft or config is None:
        return False
    fp16 = config.setting("fp16")
    return fp16.given is not False and fp16.value is not False
