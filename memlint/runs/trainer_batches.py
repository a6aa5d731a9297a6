"""What is read of a trainer's batches, and how its run is told to use them."""

from __future__ import annotations

from memlint.runs.by_script import ConfigRun
from memlint.runs.changes import set_option
from memlint.runs.run import Change, Field, span_in
from memlint.runs.runtime_calls import call_after_trainer
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS
from memlint.script.model import Script
from memlint.script.owners import Owner
from memlint.script.trained import Trained

_BY_TOKEN = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
_PINNED = "dataloader_pin_memory"
_PACKING = ("packing", "padding_free")
# What compiles, or is compiled already; trainers that sample from their model.
_COMPILERS = ("torch_compile", "torchdynamo", "bettertransformer")
_ONLINE = ("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "OnlineDPOTrainer")
# Steps and epochs of a run that is worth its compilation.
_STEPS, _EPOCHS = 1000, 3
# Options that decide about offloading; Liger's loss would be damaged by it.
_OFFLOADING = (
    *("activation_offloading", "use_liger_kernel", "use_liger_loss", "fsdp", "deepspeed"),
    *ARGUMENTS,
)
# What offloads already, or divides rows over GPUs.
_OFFLOADERS = (
    *("offload_activations", "offload_trainer_activations", "save_on_cpu"),
    "ParallelismConfig",
)
# Tokens of a row; below, the activations of a checkpointed model are small beside its weights.
_LONG = 16_384


class FedTrainer(ConfigRun):
    """What one trainer trains. trainers: all that may train with its configuration."""

    def __init__(self, script: Script, trainer: Trainer) -> None:
        self.script = script
        self.trainer = trainer
        self.config = trainer.config
        self.trainers = script.training_with(self.config) if self.config else (trainer,)

    @property
    def trains_language_model(self) -> bool:
        return all(trainer.trains_language_model for trainer in self.trainers)

    @property
    def billions(self) -> float | None:
        return self.trainer.model.billions

    @property
    def trained(self) -> Trained | None:
        return next((one for one in self.script.trained if one.trainer is self.trainer), None)

    @property
    def _maker(self) -> Call:
        return self.trainer

    @property
    def _counts_tokens_alike(self) -> bool:
        """True if each token of a step counts alike, however its rows are split."""
        script, trainer, config = self.script, self.trainer, self.config
        return (
            config is not None
            and trainer.kind in _BY_TOKEN
            and script.owner_of_loss(trainer).owner in (Owner.TRANSFORMERS, Owner.TRL)
            and config.setting("dataloader_drop_last").given is False
            and not trainer.model.family.experts
            and script.api.accepts("transformers.Trainer.compute_loss", "num_items_in_batch")
            is True
        )

    def read_pinned(self) -> Field:
        """Off where the script says so itself."""
        config = self.config
        pinned = config.setting(_PINNED) if config is not None else None
        if config is None or pinned is None or not pinned.is_switched_off:
            return Field()
        return Field(
            False, span_in(self.script, pinned.node or config.node.func), f"`{_PINNED}=False`"
        )

    def write_pinned(self, value: bool) -> Change:
        """The option."""
        edits = set_option(self.script, self.config, _PINNED, str(value)) if self.config else None
        return Change({}, f"Set `{_PINNED}={value}`", edits, True)

    @property
    def _packs_by(self) -> Trainer | Config:
        """What says whether rows are packed: TRL once gave its trainer the option."""
        if self.config is None or self.trainer.setting("packing").given:
            return self.trainer
        return self.config

    def read_packed(self) -> Field:
        """True where rows are packed, or padding-free; False where TRL pads what it prepared."""
        trainer, config, holder = self.trainer, self.config, self._packs_by
        if config is not None and config.packing is not None:
            return Field(True)
        unseen = config is None and trainer.args.given is not False
        collated = trainer.setting("data_collator").given is not False
        if trainer.kind != "trl.SFTTrainer" or unseen or collated:
            return Field()
        off = all(_is_off(trainer, name) and _is_off(config, name) for name in _PACKING)
        prepared = trainer.skips_preparation is False
        if not (off and prepared and self.script.lengths_may_differ(trainer)):
            return Field()
        packing = holder.setting("packing")
        node = packing.node if packing.given and packing.node is not None else holder.node.func
        said = str(packing.origin) if packing.is_overridable_default else ""
        return Field(False, span_in(self.script, node), said)

    def write_packed(self, value: bool) -> Change:
        """The option, where a length limits a pack."""
        script, holder, changed = self.script, self._packs_by, {"packed": value}
        if not holder.has_option("packing"):
            by_trainer = script.api.accepts("trl.SFTTrainer", "packing")
            where = "to `SFTTrainer`" if by_trainer else "in an `SFTConfig`"
            return Change(changed, f"Set `packing=True` {where}")
        if holder.has_option("max_length") and holder.effective("max_length").is_none:
            return Change(changed, "Set `max_length`, then `packing=True`")
        decided = holder.setting("packing").is_switched_off
        edits = None if decided else set_option(script, holder, "packing", str(value))
        return Change(changed, f"Set `packing={value}`", edits, True)

    def read_compile(self) -> Field:
        """Off where a long run trains models whose graph a compiler sees: neither quantized nor
        sampled from."""
        script, config = self.script, self.config
        if config is None or script.may_use(*_COMPILERS) or script.is_named("compile"):
            return Field()
        length = _length(config)
        if not length or not config.has_option("torch_compile"):
            return Field()
        models = [one for one in self.trainers if one.model.quantized is False]
        online = any(trainer.is_kind(*_ONLINE) for trainer in self.trainers)
        if online or len(models) < len(self.trainers) or not self.trains_language_model:
            return Field()
        return Field(False, span_in(script, config.node.func), f"trains for {length} uncompiled")

    def read_offload(self) -> Field:
        """``none`` where TRL trains on long rows and nothing is said of it."""
        script, config, trainer = self.script, self.config, self.trainer
        if config is None or not trainer.kind.startswith("trl.") or trainer.model.is_toy:
            return Field()
        decided = any(config.setting(name).given is not False for name in _OFFLOADING)
        if decided or (self._longest or 0) < _LONG or script.method_calls_anywhere(*_OFFLOADERS):
            return Field()
        return Field("none", span_in(script, config.node.func))

    def write_offload(self, value: str) -> Change:
        """The option, or the runtime's call."""
        script, config, option = self.script, self.config, _OFFLOADING[0]
        edits = None
        if config is not None and config.has_option(option):
            edits = set_option(script, config, option, "True")
        if edits:
            return Change({"offload": value}, f"Set `{option}=True`", edits)
        name = "memlint_runtime.offload_trainer_activations"
        call = call_after_trainer(script, self.trainer, name, "{}")
        return call._replace(settings={"offload": value})


def _is_off(call: Call | None, name: str) -> bool:
    """True if an option is definitely off; one that is neither given nor known is off."""
    if call is None:
        return True
    setting = call.effective(name)
    if setting.given is False and not call.has_option(name):
        return not call.has_unknown_keywords
    return setting.value is False


def _length(config: Config) -> str | None:
    """How long the run is, where the script writes that it is long."""
    steps, epochs = config.setting("max_steps"), config.setting("num_train_epochs")
    if type(steps.value) is int and steps.value > 0:
        is_long = steps.value >= _STEPS and not steps.is_overridable_default
        return f"{steps.value:,} steps" if is_long else None
    value = epochs.value
    if type(value) not in (int, float) or epochs.is_overridable_default:
        return None
    return f"{value} epochs" if float(str(value)) >= _EPOCHS else None
