"""What is read of a trainer's batches and of what its loss is computed from; how both change."""

from memlint.api.runtime import lacking
from memlint.engine.values import Object
from memlint.runs.batches import batches_of_trainer
from memlint.runs.by_script import ConfigRun, offload_of_rows
from memlint.runs.changes import set_option
from memlint.runs.run import Change, Field, span_in
from memlint.runs.runtime_calls import call_after_trainer, call_beside
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.checkpointing import ARGUMENTS
from memlint.script.model import Script
from memlint.script.owners import Owner
from memlint.script.readers import logit_reads
from memlint.script.setups import trainer_overrides
from memlint.script.trained import Trained

_BY_TOKEN = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
_PINNED = "dataloader_pin_memory"
_PACKING = ("packing", "padding_free")
# What a plain trainer pads its rows with.
_PADS = ("data_collator", "processing_class", "tokenizer")
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
    def _lengths_vary(self) -> bool:
        config = self.config
        if config is None or config.packing is not None or self.packed.is_value(True):
            return False
        given = {name for name in (*_PADS, "packing") if self.trainer.setting(name).given}
        if "packing" in given or not (given or self.trainer.kind.startswith("trl.")):
            return False  # its rows are stacked as they are, or were meant to be packed
        engine = config.effective("use_vllm")
        beside = engine.given is not False and not engine.is_value(False)
        return self._mixes_lengths and not beside

    @property
    def _mixes_lengths(self) -> bool:
        """True if a batch may have rows of lengths that are far apart."""
        return self.script.lengths_may_differ(self.trainer) and not self.trainer.may_sort_rows

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
        if not (off and prepared and self._mixes_lengths):
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
        """Off where a long run trains models that are neither quantized nor sampled from."""
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
        """``none`` where language models are trained on long rows and nothing is said of it."""
        script, config, trainer = self.script, self.config, self.trainer
        if config is None or not self.trains_language_model:
            return Field()
        decided = any(config.setting(name).given is not False for name in _OFFLOADING)
        tokens = self._longest or 0
        if not trainer.kind.startswith("trl."):
            tokens = batches_of_trainer(script, trainer, config).get("seq_len", 0)
        return Field() if decided else offload_of_rows(script, tokens, config.node)

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


_FUSE = "memlint_runtime.fuse_causal_lm_loss"
_FUSED = {"loss": "no_logits"}
_ADVICE = "Compute the loss without the logits: `memlint_runtime.fuse_causal_lm_loss(model)`"


class TrainerWithLoss(FedTrainer):
    """What one trainer trains, by which loss."""

    def read_loss(self) -> Field:
        """From all logits, where the library computes it so."""
        trainer, name = self.trainer, self.trainer.kind.rpartition(".")[2]
        value = "full_logits" if _keeps_full_logits(self.script, trainer) else UNSURE
        said = f"`{name}` computes the loss from the full logits"
        return Field(value, span_in(self.script, trainer.node.func), said)

    def write_loss(self, value: str) -> Change:
        """``fuse_causal_lm_loss(model)`` before the trainer is made, where the model has a name."""
        script, trainer = self.script, self.trainer
        if trainer_overrides(script, trainer, "compute_loss"):
            return Change(_FUSED, _ADVICE)
        if trainer.kind == "trl.SFTTrainer":
            return self._write_option()
        if lacking((_FUSE,), script.api.target):
            return self._write_kernels()
        model, statement = trainer.model_name, script.statement(trainer.node)
        if model is None or not script.is_simple(statement):
            return Change(_FUSED, _ADVICE)
        reads = logit_reads(script, trainer)
        alone = _wants_loss_alone(script, trainer) and not (reads.training or reads.evaluation)
        arguments = f"{model}, fuse_evaluation=True" if alone else model
        edits = call_beside(script, _FUSE, arguments, statement)
        doubt = _doubt(script, trainer)
        if (reads.training or "." in model) and not doubt:
            doubt = "if nothing else reads the logits of passes with labels: they are None then"
        message = f"Call `fuse_causal_lm_loss({arguments})` before the trainer is made"
        return Change(_FUSED, f"{message}, {doubt}" if doubt else message, edits, bool(doubt))

    def _write_kernels(self) -> Change:
        """Liger's kernels, by an option of plain arguments, where they reach the model."""
        script, trainer, option = self.script, self.trainer, "use_liger_kernel"
        family = script.api.family(trainer.checkpoint)
        none = family.plain_loss and not family.has("attends")
        if script.api.behaviour("kernels-under-adapters") != "applied":
            none = none or trainer.peft is not False
        if none or self.config is None or not self.config.has_option(option):
            return Change(_FUSED, f"{_ADVICE}; it builds on newer libraries than the target's")
        needed = " (pip install liger-kernel)"
        if trainer.subclass is not None or logit_reads(script, trainer).training:
            return Change(_FUSED, f"Set `{option}=True`{needed}, if nothing reads the logits")
        needed += "" if family.has("attends") else ", if it has kernels for the model"
        return self._by_option(option, "True", needed)

    def _write_option(self) -> Change:
        """The option of SFTTrainer. Versions that keep the logits read them for their metrics."""
        api, trainer, config = self.script.api, self.trainer, self.config
        losses = (api.choices(config.kind, "loss_type") or ()) if config else ()
        # Liger's has its own form of the other losses, and is refused beside the chunked one.
        if "chunked_nll" in losses and trainer.settled("loss_type") == "nll":
            return self._by_option("loss_type", '"chunked_nll"', "")
        option, kind = "use_liger_kernel", api.config_of(trainer.kind) or ""
        if config.has_option(option) if config else api.accepts(kind, option):
            return self._by_option(option, "True", " (pip install liger-kernel)")
        return Change(_FUSED, "Upgrade TRL: later releases compute this loss in chunks")

    def _by_option(self, option: str, source: str, needed: str) -> Change:
        """An option of the configuration, where the script has not chosen another value."""
        config, edits = self.config, None
        given = config.setting(option) if config is not None else None
        if config is not None and given and (not given.given or given.is_overridable_default):
            edits = set_option(self.script, config, option, source)
        return Change(_FUSED, f"Set `{option}={source}`{needed}", edits, True)


def _keeps_full_logits(script: Script, trainer: Trainer) -> bool:
    if trainer.model.is_toy or trainer_overrides(script, trainer, "training_step"):
        return False
    if trainer.kind == "trl.SFTTrainer":
        causal = trainer.model.by_name or trainer.model.causal_lm
    else:
        causal = trainer.kind == "transformers.Trainer" and trainer.model.computes_causal_loss
    if not causal:
        return False
    if trainer.config is not None and not _is_unset(trainer, "label_smoothing_factor"):
        # Trainer then takes the labels out of the batch and computes a loss of its own.
        return False
    owner, full_logits, _ = script.owner_of_loss(trainer)
    return owner is not Owner.SCRIPT and full_logits is True


def _is_unset(trainer: Trainer, option: str) -> bool:
    assert trainer.config is not None
    config = trainer.config
    return config.leaves_out(option) or config.setting(option).is_value(0, 0.0)


def _wants_loss_alone(script: Script, trainer: Trainer) -> bool:
    """True if evaluation takes place and reads no logits."""
    evaluated = trainer.setting("eval_dataset")
    if evaluated.given is not True or evaluated.value is None or trainer.has_unknown_keywords:
        return False
    own = trainer.subclass is not None or trainer.setting("callbacks").given is not False
    return not own and not _reads_logits(script, trainer)


def _doubt(script: Script, trainer: Trainer) -> str:
    """Why the runtime might refuse the model; empty where it certainly takes it."""
    load = trainer.model.load
    if trainer.subclass is not None:
        return "if the script's own class reads no logits"
    if load is None:
        return "if the runtime takes the model: it is loaded out of sight"
    return doubt_of_load(script, load, trainer.trains_own_code, trainer.checkpoint)


def doubt_of_load(script: Script, load: Call, own_code: bool, checkpoint: str | None) -> str:
    """Why the runtime might refuse what a call loads; empty where it certainly takes it."""
    if load.has_unknown_keywords:
        return "if the runtime takes the model: it is loaded out of sight"
    set_anew = (len(script.attributes(one)) > len(script.reads_of_attribute(one)) for one in _HEADS)
    if any(set_anew) or script.method_calls("set_output_embeddings"):
        return "if the head that the script puts in the place of the model's is a linear layer"
    if own_code:
        return "if its code, which is not transformers' own, leaves the loss to transformers"
    placed = load.setting("device_map")
    if placed.given is not False and not _is_one_device(script, placed):
        return "if its output head is not moved between devices"
    if not script.api.family(checkpoint).plain_loss:
        return "if the runtime takes the model: its name does not tell"
    return ""


def _is_one_device(script: Script, placed: Setting) -> bool:
    if isinstance(placed.value, Object) and placed.value.type == "dict":
        return script.item(placed.value, "") is not MISSING
    return placed.value is None or (
        isinstance(placed.value, str) and placed.value not in _SPREADING
    )


# What transformers calls the output head of a language model.
_HEADS = ("lm_head", "embed_out")
# Values of ``device_map`` that may put a model on several devices.
_SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")


def _reads_logits(script: Script, trainer: Trainer) -> bool:
    """True if evaluation or prediction hands logits to the script."""
    return any(
        trainer.setting(name).given is not False
        for name in ("compute_metrics", "preprocess_logits_for_metrics")
    ) or bool(script.method_calls("predict", "evaluation_loop", "prediction_step"))
