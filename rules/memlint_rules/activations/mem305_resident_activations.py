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
    LIBRARIES,
    OFF_CUDA,
    UNSLOTH,
    VISION,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Trainer,
    call_after_trainer,
    fix,
    set_option,
)

_OPTION = "activation_offloading"
_CALL = "memlint_runtime.offload_trainer_activations"
_LENGTHS = ("max_length", "max_seq_length", "max_completion_length")
# Below, the activations of a checkpointed model are small beside its weights.
_LONG = 16_384


def check(script: Script) -> Iterator[Finding]:
    if script.method_calls("offload_activations", "offload_trainer_activations", "save_on_cpu"):
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
            f"rows of up to {tokens:,} tokens keep every layer's input on the GPU: 2 bytes x layers "
            f"x hidden size a token, {tokens * 256 / 2**20:,.0f} GiB a row for Llama 3 8B",
            _fix(script, trainer, config),
        )


def _tokens(config: Config) -> int | None:
    """The longest row, where a long one is written in the script."""
    written = [config.setting(name) for name in _LENGTHS]
    lengths = [one.value for one in written if one.given and not one.by_default]
    found = [length for length in lengths if type(length) is int and length >= _LONG]
    return max(found, default=None)


def _decides(config: Config) -> bool:
    """Whether the script decides about offloading, or uses Liger, whose loss it would damage."""
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
    edits = set_option(script, config, _OPTION, "True") if config.has_option(_OPTION) else None
    if edits:
        return fix(f"Set `{_OPTION}=True`", edits)
    return call_after_trainer(script, trainer, _CALL, "{}")


RULE = Rule(
    code="MEM305",
    name="resident-activations",
    level=Level.HINT,
    summary="long contexts whose checkpointed activations stay on the GPU",
    why=(
        "With activation checkpointing each layer's input stays until backward: 2 bytes x layers x "
        "hidden size a token in bf16, 8 GiB for Llama 3 8B at 32,768 tokens. They are needed one "
        "at a time and can wait in the host's memory. A hint, since it pays only where a run does "
        "not fit: given only where rows of 16,384 tokens or more are written in the script, and "
        "silent where it decides about offloading, uses Liger's kernels or shards."
    ),
    fix_safety=(
        "Safe: what comes back is what went. By TRL's own option where the configuration has it, "
        "else by the runtime's adapter (`pip install 'torch-memlint[runtime]'`)."
    ),
    check=check,
    skips=(UNSLOTH, VISION, OFF_CUDA),
    triggers=(LIBRARIES, frozenset({"max_length", "max_seq_length", "max_completion_length"})),
    references=("https://huggingface.co/docs/trl/reducing_memory_usage",),
    examples=(
        Example(
            title="TRL's option",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_length=32768, packing=True)
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_length=32768, packing=True, activation_offloading=True)
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="a trainer without the option",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_completion_length=16384)
trainer = GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import offload_trainer_activations

args = GRPOConfig("out", max_completion_length=16384)
trainer = GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
offload_trainer_activations(trainer)
trainer.train()
""",
        ),
    ),
)
