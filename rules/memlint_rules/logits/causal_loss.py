"""How a trainer's causal LM loss is computed without logits: ``fuse_causal_lm_loss(model)``."""

from __future__ import annotations

from memlint.rule import MISSING, Fix, Object, Script, Setting, Trainer, advise, edits, facts, fix

_FUSE = "memlint_runtime.fuse_causal_lm_loss"


def fuse_trainers_loss(script: Script, trainer: Trainer) -> Fix | None:
    """``fuse_causal_lm_loss(model)`` before the trainer is made, where the model has a name."""
    advice = "Compute the loss without the logits: `memlint_runtime.fuse_causal_lm_loss(model)`"
    if trainer.kind == "trl.SFTTrainer":
        return _by_option(script, trainer)
    if script.api.behaviour("runtime") != "tested":
        return advise(f"{advice}; it builds on a newer transformers than the target's")
    model, statement = trainer.model_name, script.statement(trainer.node)
    if model is None or not script.is_simple(statement):
        return advise(advice)
    reads = facts.logit_reads(script, trainer)
    alone = _wants_loss_alone(script, trainer) and not (reads.training or reads.evaluation)
    arguments = f"{model}, fuse_evaluation=True" if alone else model
    changes = edits.call_beside(script, _FUSE, arguments, statement)
    doubt = _doubt(script, trainer)
    if reads.training and not doubt:
        doubt = "if nothing else reads the logits of passes with labels: they are None then"
    message = f"Call `fuse_causal_lm_loss({arguments})` before the trainer is made"
    return fix(f"{message}, {doubt}" if doubt else message, changes, unsafe=bool(doubt))


def _by_option(script: Script, trainer: Trainer) -> Fix | None:
    """What SFTTrainer has for it. Its versions that keep the logits read them for their metrics."""
    config = trainer.config
    if config is None:
        return None
    losses = script.api.choices(config.kind, "loss_type") or ()
    # Liger's has its own form of the other losses, and is refused beside the chunked one.
    if "chunked_nll" in losses and trainer.settled("loss_type") == "nll":
        return advise('Set `loss_type="chunked_nll"`')
    return advise("Set `use_liger_kernel=True`") if config.has_option("use_liger_kernel") else None


def _wants_loss_alone(script: Script, trainer: Trainer) -> bool:
    """True if evaluation takes place and reads no logits."""
    evaluated = trainer.setting("eval_dataset")
    if evaluated.given is not True or evaluated.value is None or trainer.has_unknown_keywords:
        return False
    return trainer.setting("callbacks").given is False and not _reads_logits(script, trainer)


def _doubt(script: Script, trainer: Trainer) -> str:
    """Why the runtime might refuse the model; empty where it certainly takes it."""
    load = trainer.model.load
    if load is None or load.has_unknown_keywords:
        return "if the runtime takes the model: it is loaded out of sight"
    if trainer.trains_own_code:
        return "if its code, which is not transformers' own, leaves the loss to transformers"
    placed = load.setting("device_map")
    if placed.given is not False and not _is_one_device(script, placed):
        return "if its output head is not moved between devices"
    if not script.api.family(trainer.checkpoint).plain_loss:
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
