"""A full fine-tune without accumulation that keeps all gradients until the optimizer's step.

Gradients of all weights are alive when the step begins: 2 bytes a parameter in bf16, 15 GiB for 8
billion. Without accumulation nothing needs them together but the clipping by their global norm: an
optimizer that steps inside backward uses and frees each as it is complete. Cost: no clipping by the
global norm, no accumulation, one process. Source: PyTorch tutorial, "How to save memory by fusing
the optimizer step into the backward pass".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.rule import (
    DEEPSPEED,
    LIBRARIES,
    OFF_CUDA,
    UNSLOTH,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Trainer,
    advise,
    call_after_trainer,
    fix,
    set_option,
    together,
)

_CALL = "memlint_runtime.step_trainer_in_backward"
# Billions of parameters, as checkpoints write them: ``Llama-3.1-8B``, not ``8x7B`` or ``A3B``.
_BILLIONS = r"(?<![\dxa.])(\d+(?:\.\d+)?)b(?![a-z])"
_LARGE = 6.0


def check(script: Script) -> Iterator[Finding]:
    if script.method_calls("step_trainer_in_backward", "OptimizerInBackward"):
        return
    for trainer in script.training:
        config = trainer.config
        if config is None or trainer.setting("optimizers").given is not False:
            continue
        billions = _billions(trainer)
        if billions is None or not _trains_all(trainer) or not _one_batch_a_step(config):
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


def _billions(trainer: Trainer) -> float | None:
    """The size that the checkpoint's name gives, where it is a large one."""
    found = [float(one) for one in re.findall(_BILLIONS, trainer.model.checkpoint)]
    return found[0] if len(found) == 1 and found[0] >= _LARGE else None


def _trains_all(trainer: Trainer) -> bool:
    facts = trainer.model
    return trainer.peft is False and facts.quantized is False and facts.kbit is False


def _one_batch_a_step(config: Config) -> bool:
    """Whether each backward is a step, of one process, with a plain optimizer."""
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
    edits = together(call.edits or None, set_option(script, config, "max_grad_norm", "0"))
    if edits is None:
        return advise(call.message)
    return fix(f"{call.message}, with `max_grad_norm=0`", edits, unsafe=True)


RULE = Rule(
    code="MEM504",
    name="resident-gradients",
    level=Level.HINT,
    summary="a full fine-tune that keeps all gradients until the optimizer's step",
    why=(
        "When the optimizer steps, the gradients of all weights are there: 2 bytes each in bf16, 15 "
        "GiB for 8 billion, and twice that for float32 weights. Without accumulation an optimizer can step inside backward instead, "
        "and free each gradient as it is complete. A hint, since it gives up clipping by the "
        "global norm: given only where the name of the checkpoint says 6 billion parameters or "
        "more and all are certainly trained, by one process as far as the script says."
    ),
    fix_safety=(
        "Unsafe: gradients are not clipped any more (`max_norm_per_parameter=` clips each by "
        "itself). `step_trainer_in_backward` comes with `pip install 'torch-memlint[runtime]'`; "
        "advice only where the trainer has no name."
    ),
    check=check,
    skips=(UNSLOTH, OFF_CUDA, DEEPSPEED),
    triggers=(LIBRARIES, frozenset({"Trainer"})),
    references=(
        "https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html",
    ),
    examples=(
        Example(
            title="all weights of an 8B model",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=1)
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
trainer.train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer
from memlint_runtime import step_trainer_in_backward

args = SFTConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=1, max_grad_norm=0)
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
step_trainer_in_backward(trainer)
trainer.train()
""",
        ),
    ),
)
