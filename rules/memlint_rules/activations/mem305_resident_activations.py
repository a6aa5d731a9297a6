"""Long contexts whose checkpointed activations stay on the GPU.

Activation checkpointing keeps each layer's input: 2 x layers x hidden size bytes a token in bf16,
256 KiB for Llama 3 8B, 8 GiB for 32,768 tokens. Backward needs them one at a time, so that they can
wait in the host's memory meanwhile, copied beside the computation. Cost: as much pinned host
memory, and a few per cent of time where the copies cannot hide. Source: TRL, "Reducing Memory
Usage" (activation offloading); torchtune's memory guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    CHECKPOINTING_ARGUMENTS,
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    Trainer,
    TrainingRun,
    by_change,
    call_after_trainer,
    edits,
    fix,
    triggers,
)

_OPTION = "activation_offloading"
_CALL = "memlint_runtime.offload_trainer_activations"
# What offloads already, or divides rows over GPUs.
_DECIDING = (
    *("offload_activations", "offload_trainer_activations", "save_on_cpu"),
    "ParallelismConfig",
)
_LENGTHS = ("max_length", "max_seq_length", "max_completion_length")
# Below, the activations of a checkpointed model are small beside its weights.
_LONG = 16_384


def check(script: Script) -> Iterator[Finding]:
    if script.method_calls_anywhere(*_DECIDING):
        return
    for trainer in script.training:
        config = trainer.config
        if config is None or not trainer.kind.startswith("trl.") or trainer.model.is_toy:
            continue
        tokens = _tokens(config)
        if tokens is None or not config.checkpointing or _decides(config):
            continue
        yield Finding(
            script.span(config.node.func),
            f"rows of up to {tokens:,} tokens keep every layer's input on the GPU: 2 bytes x "
            f"layers x hidden size a token, {tokens * 256 / 2**20:,.0f} GiB a row for Llama 3 8B",
            _fix(script, trainer, config),
        )


def _tokens(config: Config) -> int | None:
    """The longest row, where a long one is written in the script."""
    written = [config.setting(name) for name in _LENGTHS]
    lengths = [one.value for one in written if one.given and not one.is_overridable_default]
    found = [length for length in lengths if type(length) is int and length >= _LONG]
    return max(found, default=None)


def _decides(config: Config) -> bool:
    """True if the script decides about offloading, or uses Liger, whose loss it would damage."""
    names = (
        _OPTION,
        "use_liger_kernel",
        "use_liger_loss",
        "fsdp",
        "deepspeed",
        *CHECKPOINTING_ARGUMENTS,
    )
    return any(config.setting(name).given is not False for name in names)


def _fix(script: Script, trainer: Trainer, config: Config) -> Fix:
    changes = (
        edits.set_option(script, config, _OPTION, "True") if config.has_option(_OPTION) else None
    )
    if changes:
        return fix(f"Set `{_OPTION}=True`", changes)
    return call_after_trainer(script, trainer, _CALL, "{}")


def of_run(run: TrainingRun) -> Iterator[Finding]:
    if run.offload.is_value("none") and run.checkpointing.is_value("full"):
        message = "the inputs of checkpointed layers stay on the GPU until backward"
        yield Finding(run.offload.span, message, by_change(run.set(offload="activations")))


RULE = Rule(
    code="MEM305",
    name="resident-activations",
    level=Level.HINT,
    summary="long contexts whose checkpointed activations stay on the GPU",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"max_length", "max_seq_length", "max_completion_length"}),
    ),
    effect={"offload": "activations"},
)
