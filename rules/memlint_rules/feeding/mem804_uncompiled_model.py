"""A long run of a model that is not compiled.

``torch.compile`` fuses elementwise operations: fewer kernels, and fewer activations between them.
It pays for its minutes of compilation in runs of some thousand steps. Source: transformers
documentation, "GPU" (torch.compile); PyTorch documentation, ``torch.compile``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    TESTS,
    UNSLOTH,
    VISION,
    Config,
    Example,
    Finding,
    Level,
    Rule,
    Script,
    Trainer,
    advise,
)

_STEPS, _EPOCHS = 1000, 3
# What compiles, or is compiled already.
_COMPILERS = ("torch.compile", ".compile(", "torch_compile", "torchdynamo", "bettertransformer")


def check(script: Script) -> Iterator[Finding]:
    if script.says(*_COMPILERS):
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
    if isinstance(steps.value, int) and steps.value > 0:
        return f"{steps.value:,} steps" if steps.value >= _STEPS and not steps.by_default else None
    written = isinstance(epochs.value, int | float) and not epochs.by_default
    return f"{epochs.value} epochs" if written and float(str(epochs.value)) >= _EPOCHS else None


def _compiles_well(script: Script, trainer: Trainer) -> bool:
    """Whether its model is one whose graph a compiler sees: neither quantized nor sampled from."""
    if trainer.is_kind("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "OnlineDPOTrainer"):
        return False
    return trainer.trains_language_model and trainer.model.quantized is False


RULE = Rule(
    code="MEM804",
    name="uncompiled-model",
    level=Level.HINT,
    summary="a long run without torch.compile",
    why=(
        "`torch.compile` fuses the elementwise operations of a layer into few kernels, which saves "
        "time and the activations between them. It compiles for minutes, again for new lengths, "
        "and pays in long runs: found where 1,000 steps or 3 epochs are written. A hint, given "
        "only where the rule is selected. Silent for quantized models and online methods, where "
        "graphs break."
    ),
    fix_safety="Advice only: not every model compiles, and lengths that change compile again.",
    check=check,
    skips=(OFF_CUDA, UNSLOTH, VISION, TESTS),
    triggers=(LIBRARIES, frozenset({"num_train_epochs", "max_steps"})),
    references=("https://docs.pytorch.org/docs/stable/generated/torch.compile.html",),
    on_request=True,
    examples=(
        Example(
            title="five epochs",
            bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", num_train_epochs=5)
Trainer(model, args, train_dataset=rows).train()
""",
        ),
    ),
)
