"""What a trainer's causal LM loss is computed from, and how it is computed without logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.values import Object
from memlint.runs.changes import set_option
from memlint.runs.run import Change, Field, span_in
from memlint.runs.runtime_calls import call_beside
from memlint.runs.trainer_batches import FedTrainer
from memlint.script.call_settings import MISSING, UNSURE
from memlint.script.owners import Owner
from memlint.script.readers import logit_reads

if TYPE_CHECKING:
    from memlint.script.call_settings import Setting
    from memlint.script.called import Call
    from memlint.script.calls import Trainer
    from memlint.script.model import Script

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
        if trainer.kind == "trl.SFTTrainer":
            return self._write_option()
        if script.api.behaviour("runtime") != "tested":
            message = f"{_ADVICE}; it builds on a newer transformers than the target's"
            return Change(_FUSED, message)
        model, statement = trainer.model_name, script.statement(trainer.node)
        if model is None or not script.is_simple(statement):
            return Change(_FUSED, _ADVICE)
        reads = logit_reads(script, trainer)
        alone = _wants_loss_alone(script, trainer) and not (reads.training or reads.evaluation)
        arguments = f"{model}, fuse_evaluation=True" if alone else model
        edits = call_beside(script, _FUSE, arguments, statement)
        doubt = _doubt(script, trainer)
        if reads.training and not doubt:
            doubt = "if nothing else reads the logits of passes with labels: they are None then"
        message = f"Call `fuse_causal_lm_loss({arguments})` before the trainer is made"
        return Change(_FUSED, f"{message}, {doubt}" if doubt else message, edits, bool(doubt))

    def _write_option(self) -> Change:
        """What SFTTrainer has for it. Its versions that keep the logits read them for their
        metrics."""
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
    if trainer.model.is_toy or trainer.subclass is not None:
        return False
    if trainer.kind == "trl.SFTTrainer":
        causal = trainer.model.by_name or trainer.model.causal_lm
    else:
        causal = trainer.kind == "transformers.Trainer" and trainer.model.causal_lm
    if not causal:
        return False
    if trainer.config is not None and not _is_off(trainer, "label_smoothing_factor"):
        # Trainer then takes the labels out of the batch and computes a loss of its own.
        return False
    owner, full_logits, _ = script.owner_of_loss(trainer)
    # Code that comes with a checkpoint does as transformers does, in nearly all cases.
    return full_logits is True or owner is Owner.REMOTE_CODE


def _is_off(trainer: Trainer, option: str) -> bool:
    assert trainer.config is not None
    setting = trainer.config.setting(option)
    by_default = setting.given is None and trainer.config.from_command_line
    return by_default or setting.given is False or setting.is_value(0, 0.0)


def _wants_loss_alone(script: Script, trainer: Trainer) -> bool:
    """True if evaluation takes place and reads no logits."""
    evaluated = trainer.setting("eval_dataset")
    if evaluated.given is not True or evaluated.value is None or trainer.has_unknown_keywords:
        return False
    return trainer.setting("callbacks").given is False and not _reads_logits(script, trainer)


def _doubt(script: Script, trainer: Trainer) -> str:
    """Why the runtime might refuse the model; empty where it certainly takes it."""
    load = trainer.model.load
    if load is None:
        return "if the runtime takes the model: it is loaded out of sight"
    return doubt_of_load(script, load, trainer.trains_own_code, trainer.checkpoint)


def doubt_of_load(script: Script, load: Call, own_code: bool, checkpoint: str | None) -> str:
    """Why the runtime might refuse what a call loads; empty where it certainly takes it."""
    if load.has_unknown_keywords:
        return "if the runtime takes the model: it is loaded out of sight"
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


# Values of ``device_map`` that may put a model on several devices.
_SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")


def _reads_logits(script: Script, trainer: Trainer) -> bool:
    """True if evaluation or prediction hands logits to the script."""
    return any(
        trainer.setting(name).given is not False
        for name in ("compute_metrics", "preprocess_logits_for_metrics")
    ) or bool(script.method_calls("predict", "evaluation_loop", "prediction_step"))
