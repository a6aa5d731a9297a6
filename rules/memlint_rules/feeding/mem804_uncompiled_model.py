"""A long run of a model that is not compiled.

``torch.compile`` fuses elementwise operations: fewer kernels, and fewer activations between them.
It pays for its minutes of compilation in runs of some thousand steps. Source: transformers
documentation, "GPU" (torch.compile); PyTorch documentation, ``torch.compile``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    Trainer,
    TrainingRun,
    advise,
    by_change,
    triggers,
)

_STEPS, _EPOCHS = 1000, 3
# What compiles, or is compiled already.
_COMPILERS = ("torch_compile", "torchdynamo", "bettertransformer")


def check(script: Script) -> Iterator[Finding]:
    if script.may_use(*_COMPILERS) or script.is_named("compile"):
        return
    for config in script.configs:
        trainers = script.training_with(config)
        length = _length(config)
        if not length or not trainers or not config.has_option("torch_compile"):
            continue
        if all(_compiles_well(script, trainer) for trainer in trainers):
            yield Finding(
                script.span(config.node.func),
                f"trains for {length} without `torch.compile`, which fuses operations and what is "
                "kept between them",
                advise("Set `torch_compile=True`, and pad to few lengths"),
            )


def _length(config: Config) -> str | None:
    """How long the run is, where the script writes that it is long."""
    steps, epochs = config.setting("max_steps"), config.setting("num_train_epochs")
    if type(steps.value) is int and steps.value > 0:
        return (
            f"{steps.value:,} steps"
            if steps.value >= _STEPS and not steps.is_overridable_default
            else None
        )
    value = epochs.value
    if type(value) not in (int, float) or epochs.is_overridable_default:
        return None
    return f"{value} epochs" if float(str(value)) >= _EPOCHS else None


def _compiles_well(script: Script, trainer: Trainer) -> bool:
    """True if its model is one whose graph a compiler sees: neither quantized nor sampled from."""
    if trainer.is_kind("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "OnlineDPOTrainer"):
        return False
    return trainer.trains_language_model and trainer.model.quantized is False


def of_run(run: TrainingRun) -> Iterator[Finding]:
    if run.compile.is_value(False):
        message = "the model and the loss are not compiled: every operation keeps its own result"
        yield Finding(run.compile.span, message, by_change(run.set(compile=True)))


RULE = Rule(
    code="MEM804",
    name="uncompiled-model",
    level=Level.HINT,
    summary="a long run without torch.compile",
    check=check,
    of_run=of_run,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.VISION, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"num_train_epochs", "max_steps"})),
    on_request=True,
)
