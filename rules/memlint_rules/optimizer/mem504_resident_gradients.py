"""A full fine-tune without accumulation that keeps all gradients until the optimizer's step.

Gradients of all weights are alive when the step begins: 2 bytes a parameter in bf16, 15 GiB for 8
billion. Without accumulation nothing needs them together but the clipping by their global norm: an
optimizer that steps inside backward uses and frees each as it is complete. Cost: no clipping by the
global norm, no accumulation, one process. Source: PyTorch tutorial, "How to save memory by fusing
the optimizer step into the backward pass".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    Trainer,
    TrainingRun,
    advise,
    by_change,
    call_after_trainer,
    edits,
    fix,
    triggers,
)

_CALL = "memlint_runtime.step_trainer_in_backward"
# Billions of parameters.
_LARGE = 6.0


def check(script: Script) -> Iterator[Finding]:
    if script.is_sharded or script.method_calls_anywhere(
        "step_trainer_in_backward", "OptimizerInBackward"
    ):
        return
    if (script.launcher.processes or 1) > 1:
        return
    for trainer in script.training:
        config = trainer.config
        if config is None or trainer.setting("optimizers").given is not False:
            continue
        billions = trainer.model.billions
        if (
            billions is None
            or billions < _LARGE
            or not _trains_all(trainer)
            or not _one_batch_a_step(config)
        ):
            continue
        yield Finding(
            script.span(trainer.node.func),
            f"the gradients of some {billions:g} billion weights wait together for the optimizer: "
            f"{_size(billions, script.weights_dtype(trainer))}; without accumulation it could "
            "use each as it comes",
            _fix(script, trainer, config),
        )


def _size(billions: float, dtype: str | None) -> str:
    """What gradients take, in the dtype of their weights; 2 bytes each where it is unknown."""
    width = 4 if dtype == "torch.float32" else 2
    words = f"in {dtype.removeprefix('torch.')}" if dtype is not None else f"at {width} bytes each"
    return f"{billions * width * 1e9 / 2**30:.0f} GiB {words}"


def _trains_all(trainer: Trainer) -> bool:
    facts = trainer.model
    return trainer.peft is False and facts.quantized is False and facts.kbit is False


def _one_batch_a_step(config: Config) -> bool:
    """True if each backward is a step, of one process, with a plain optimizer."""
    if config.effective("gradient_accumulation_steps").value != 1:
        return False
    if config.setting("fp16").given is not False and config.setting("fp16").value is not False:
        return False
    optimizer = config.setting("optim").value
    if isinstance(optimizer, str) and ("layerwise" in optimizer or "lomo" in optimizer):
        return False
    return all(config.setting(name).given is False for name in ("deepspeed", "fsdp", "optim_args"))


def _fix(script: Script, trainer: Trainer, config: Config) -> Fix:
    call = call_after_trainer(script, trainer, _CALL, "{}")
    changes = edits.together(
        call.edits or None, edits.set_option(script, config, "max_grad_norm", "0")
    )
    if changes is None:
        return advise(call.message)
    return fix(f"{call.message}, with `max_grad_norm=0`", changes, unsafe=True)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    step, batches = run.in_backward, run.gradient_accumulation
    is_plain = batches.is_value(1) and run.clipping.is_value(None)
    if step.is_value(False) and is_plain and not run.method.is_value("lora"):
        yield Finding(step.span, step.said, by_change(run.set(in_backward=True)))


RULE = Rule(
    code="MEM504",
    name="resident-gradients",
    level=Level.HINT,
    summary="a full fine-tune that keeps all gradients until the optimizer's step",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.DEEPSPEED),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
)
