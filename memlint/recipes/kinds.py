"""Which program a recipe is for, told by what is in it and never by its name.

``kind_of`` decides on the keys of the document. What no program is known to read is no recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from memlint.recipes.document import MappingNode, Node, Scalar, merged, resolved


class Kind(StrEnum):
    """The program that reads a recipe."""

    TRL = "TRL"
    ALIGNMENT_HANDBOOK = "alignment-handbook"
    TORCHTUNE = "torchtune"
    LLAMA_FACTORY = "LLaMA-Factory"
    AXOLOTL = "axolotl"
    ACCELERATE = "accelerate"
    DEEPSPEED = "DeepSpeed"


_STAGES = frozenset({"pt", "sft", "rm", "ppo", "dpo", "kto"})
_FINE_TUNING = frozenset({"lora", "full", "freeze", "oft"})
_AXOLOTL = frozenset(
    {
        "datasets", "pretraining_dataset", "adapter", "sequence_len", "micro_batch_size", "rl",
        "sample_packing", "num_epochs", "dataset_prepared_path", "val_set_size",
    }
)  # fmt: skip
# Options of ``TrainingArguments`` that people write: two of them beside a model make a recipe.
_TRAINING = frozenset(
    {
        "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
        "num_train_epochs", "max_steps", "output_dir", "gradient_checkpointing", "bf16", "fp16",
        "lr_scheduler_type", "logging_steps", "save_steps", "save_strategy", "warmup_ratio",
        "warmup_steps", "optim", "eval_strategy", "evaluation_strategy",
        "per_device_eval_batch_size",
    }
)  # fmt: skip
_ACCELERATE = frozenset(
    {
        "distributed_type", "compute_environment", "num_processes", "num_machines",
        "mixed_precision", "deepspeed_config", "fsdp_config", "dynamo_config", "machine_rank",
        "main_training_function", "main_process_port", "use_cpu",
    }
)  # fmt: skip


def kind_of(root: MappingNode) -> Kind | None:
    """The program that reads a recipe with this mapping; None where no known one does."""
    top = {key: resolved(value) for key, value in merged(root).items() if isinstance(key, str)}
    keys = top.keys()
    if _is_torchtune(top):
        return Kind.TORCHTUNE
    if "zero_optimization" in keys or "train_micro_batch_size_per_gpu" in keys:
        return Kind.DEEPSPEED
    if "model_name_or_path" in keys:
        return _kind_beside_model(top)
    if "base_model" in keys and len(keys & _AXOLOTL) >= 2:
        return Kind.AXOLOTL
    if keys & {"distributed_type", "compute_environment"} and len(keys & _ACCELERATE) >= 3:
        return Kind.ACCELERATE
    return None


def _kind_beside_model(top: Mapping[str, Node]) -> Kind | None:
    stage, tuning = _text(top.get("stage")), _text(top.get("finetuning_type"))
    if tuning in _FINE_TUNING or (stage in _STAGES and "template" in top):
        return Kind.LLAMA_FACTORY
    if len(top.keys() & _TRAINING) < 2:
        return None
    if top.keys() & {"dataset_mixer", "dataset_mixture"}:
        return Kind.ALIGNMENT_HANDBOOK
    return Kind.TRL


def _is_torchtune(top: Mapping[str, Node]) -> bool:
    """Whether the model, or what goes with it, is a component of torchtune."""
    for key in ("model", "checkpointer", "tokenizer", "dataset", "loss", "policy_model"):
        section = top.get(key)
        if isinstance(section, MappingNode):
            entry = section.entry("_component_")
            if entry is not None and str(_text(entry.value)).startswith("torchtune."):
                return True
    return False


def _text(node: Node | None) -> str | None:
    if node is None:
        return None
    one = resolved(node)
    return one.value if isinstance(one, Scalar) and isinstance(one.value, str) else None
