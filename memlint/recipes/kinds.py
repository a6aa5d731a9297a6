"""Which program's recipe a mapping is, where all of its keys are that program's.

``reader_by_keys`` answers for a file of which nothing else is known: every key at the top was an
option of the program in some release, and the keys without which the program does not start are
there. One key more, and some other program reads the file. What commands and scripts say of a
file goes before its keys: ``memlint.run.ownership``.

A recipe of TRL does not name its method; its keys do, where only some configurations have them.
Words in its path or its first comments decide among those that its keys leave. What stays open is
checked as each of them, and only what holds for all of them is reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from memlint.api.lookup import Api
from memlint.recipes.document import MappingNode, Node, Scalar, merged, resolved
from memlint.source import Source
from memlint.source.record import NamedTuple, Record


class Kind(StrEnum):
    """The program that reads a recipe."""

    TRL = "TRL"
    ALIGNMENT_HANDBOOK = "alignment-handbook"
    TORCHTUNE = "torchtune"
    LLAMA_FACTORY = "LLaMA-Factory"
    AXOLOTL = "axolotl"
    ACCELERATE = "accelerate"
    DEEPSPEED = "DeepSpeed"

    @property
    def fills_trl(self) -> bool:
        """True if the program fills TRL's own classes, whose versions matter."""
        return self in (Kind.TRL, Kind.ALIGNMENT_HANDBOOK)


class Reader(NamedTuple):
    """What reads a file, and how that is known.

    kind: None where no program of ours reads it. evidence: a sentence's end, for people.
    classes: the libraries' classes that the keys go into; empty for those of the program.
    own: keys that classes of the project define, whose meaning is the project's.
    computes: what the recipe does not say is not the libraries' default: classes of the project
    decide it; what a file of DeepSpeed's says, a script may change. path: the project's script that
    reads it; empty: the program does. also: others that may read it in place of this one, of the
    same program.
    """

    kind: Kind | None
    evidence: str
    classes: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    computes: bool = False
    path: str = ""
    also: tuple[Reader, ...] = ()

    def has_class(self, name: str) -> bool:
        """True if the keys go into a class of a library: all of them are the program's."""
        return not self.classes or any(each.rpartition(".")[2] == name for each in self.classes)


_STAGES = frozenset({"pt", "sft", "rm", "ppo", "dpo", "kto"})
_FINE_TUNING = frozenset({"lora", "full", "freeze", "oft"})
# axolotl refuses a recipe without data, and these name what no other program calls so.
_AXOLOTL_DATA = frozenset({"datasets", "pretraining_dataset"})
_AXOLOTL = frozenset(
    {"sequence_len", "micro_batch_size", "sample_packing", "dataset_prepared_path"}
)
# What the classes of the alignment-handbook define themselves, in all of its versions.
HANDBOOK = frozenset(
    {
        "dataset_mixer", "dataset_mixture", "dataset_splits", "dataset_configs", "text_column",
        "preprocessing_num_workers", "truncation_side", "auto_insert_empty_system_msg",
        "chat_template", "tokenizer_name_or_path", "base_model_revision", "model_code_revision",
        "torch_dtype", "use_flash_attention_2", "bnb_4bit_quant_storage", "max_seq_length",
        "logging_first_step", "hub_model_revision", "max_prompt_length", "optim",
    }
)  # fmt: skip
_MIXTURES = frozenset({"dataset_mixer", "dataset_mixture"})
# Sources: the configuration classes of ``accelerate config``, the JSON of DeepSpeed's documents.
_ACCELERATE = frozenset(
    {
        "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug",
        "num_processes", "machine_rank", "num_machines", "gpu_ids", "main_process_ip",
        "main_process_port", "rdzv_backend", "same_network", "main_training_function",
        "enable_cpu_affinity", "fp8_config", "deepspeed_config", "fsdp_config", "commands",
        "parallelism_config", "megatron_lm_config", "mpirun_config", "ipex_config",
        "downcast_bf16", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "tpu_vm",
        "tpu_env", "command_file", "dynamo_config", "dynamo_backend", "ec2_instance_type",
        "iam_role_name", "image_uri", "profile", "region", "base_job_name", "pytorch_version",
        "transformers_version", "py_version", "sagemaker_inputs_file", "additional_args",
        "sagemaker_metrics_file", "deepspeed_multinode_launcher", "deepspeed_hostfile",
        "rdzv_conf", "rdzv_endpoint", "fp16", "use_fsdp", "use_deepspeed",
    }
)  # fmt: skip
_DEEPSPEED_MARKS = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu"})
_DEEPSPEED = _DEEPSPEED_MARKS | frozenset(
    {
        "train_batch_size", "gradient_accumulation_steps", "optimizer", "scheduler", "fp16",
        "bf16", "bfloat16", "amp", "gradient_clipping", "steps_per_print", "dump_state",
        "wall_clock_breakdown", "activation_checkpointing", "sparse_attention",
        "communication_data_type", "seq_parallel_communication_data_type", "memory_breakdown",
        "prescale_gradients", "gradient_predivide_factor", "sparse_gradients", "flops_profiler",
        "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "tensorboard", "wandb",
        "csv_monitor", "comet", "data_efficiency", "curriculum_learning", "data_types",
        "autotuning", "aio", "elasticity", "comms_logger", "compression_training", "checkpoint",
        "pipeline", "hybrid_engine", "eigenvalue", "progressive_layer_drop", "compile",
        "tensor_parallel", "torch_autocast", "disable_allgather", "fp32_allreduce", "timers",
        "load_universal_checkpoint", "dataloader_drop_last", "sequence_parallel_size",
        "use_data_before_expert_parallelism", "graph_harvesting", "monitor_config", "nebula",
        "train_micro_batch_size", "zero_quantized_weights", "weight_quantization", "comment",
    }
)  # fmt: skip
# Of ``trl``'s own commands, besides the options of its classes.
_TRL_PARSER = frozenset({"config", "env"})
_SCRIPT_ARGUMENTS = (
    "trl.ScriptArguments", "trl.SFTScriptArguments", "trl.DPOScriptArguments",
    "trl.SftScriptArguments", "trl.DpoScriptArguments", "trl.DatasetMixtureConfig",
    "trl.scripts.grpo.GRPOScriptArguments", "trl.scripts.rloo.RLOOScriptArguments",
    "trl.commands.cli_utils.RewardScriptArguments",
    "trl.commands.scripts.cpo.ScriptArguments", "trl.commands.scripts.kto.ScriptArguments",
    "trl.commands.scripts.orpo.ScriptArguments",
)  # fmt: skip
_MODEL = "trl.ModelConfig"
_TRAINING = "transformers.TrainingArguments"


def reader_by_keys(root: MappingNode) -> Reader | None:
    """The program that a recipe with this mapping is for; None where no one is certain."""
    top = {key: resolved(value) for key, value in merged(root).items() if isinstance(key, str)}
    if len(top) < len(merged(root)):
        return None
    component = _torchtune_component(top)
    if component:
        return Reader(Kind.TORCHTUNE, f"its components are torchtune's (`{component}`)")
    kind = _kind_of_keys(top)
    if kind is None:
        return None
    own = HANDBOOK if kind is Kind.ALIGNMENT_HANDBOOK else frozenset()
    by_script = kind is Kind.DEEPSPEED
    return Reader(kind, f"every key is an option of {kind.value}", own=own, computes=by_script)


def _kind_of_keys(top: Mapping[str, Node]) -> Kind | None:
    keys = top.keys()
    if keys & _DEEPSPEED_MARKS:
        return Kind.DEEPSPEED if all(key in _DEEPSPEED or key[:1] == "_" for key in keys) else None
    if keys & {"distributed_type", "compute_environment"}:
        return Kind.ACCELERATE if len(keys) >= 3 and keys <= _ACCELERATE else None
    if "base_model" in keys:
        needed = keys & _AXOLOTL_DATA and keys & _AXOLOTL
        return Kind.AXOLOTL if needed and _was_of("axolotl", keys) else None
    return _kind_beside_model(top) if "model_name_or_path" in keys else None


def _kind_beside_model(top: Mapping[str, Node]) -> Kind | None:
    keys = top.keys()
    stage, tuning = _text(top.get("stage")), _text(top.get("finetuning_type"))
    if tuning in _FINE_TUNING or (stage in _STAGES and "template" in keys):
        return Kind.LLAMA_FACTORY if _was_of("llamafactory", keys) else None
    if sum(is_option(_TRAINING, key) for key in keys) < 2:
        return None
    if keys & _MIXTURES:
        return Kind.ALIGNMENT_HANDBOOK if is_of_trl(keys - HANDBOOK) else None
    return Kind.TRL if is_of_trl(keys) else None


def kind_for_launcher(root: MappingNode) -> Kind:
    """What a file that a command gives to a launcher configures: DeepSpeed or accelerate."""
    return Kind.ACCELERATE if _DEEPSPEED_MARKS.isdisjoint(merged(root)) else Kind.DEEPSPEED


def looks_like_training(root: MappingNode) -> bool:
    """True if a mapping has options of trainers: the file may be a recipe, of whatever program."""
    keys = [key for key in merged(root) if isinstance(key, str)]
    options = sum(is_option(_TRAINING, key) or is_option(_MODEL, key) for key in keys)
    return options > 1 or not _AXOLOTL.isdisjoint(keys)


def is_of_trl(keys: Collection[str]) -> bool:
    """True if some command of TRL had every key as an option, in some release."""
    left = [key for key in keys if not _is_common(key)]
    return any(all(is_option(each.config, key) for key in left) for each in METHODS)


def _is_common(key: str) -> bool:
    """True if all commands of TRL share an option."""
    from memlint.recipes.programs import is_of_trl_launcher

    return (
        key in _TRL_PARSER
        or is_option(_MODEL, key)
        or any(is_option(each, key) for each in _SCRIPT_ARGUMENTS)
        or is_of_trl_launcher(key)
    )


@lru_cache(maxsize=8192)
def is_option(name: str, key: str) -> bool:
    """True if a class of a library had an option in some release."""
    from memlint.api.lookup import newest_tables

    return key.isidentifier() and newest_tables().history(name, key) is not None


def _was_of(program: str, keys: Collection[str]) -> bool:
    """True if every key is one of a program's schema, in some release, or nearly one of today's."""
    from memlint.recipes.schemas import was_key

    return all(was_key(program, key) for key in keys)


def _torchtune_component(top: Mapping[str, Node]) -> str:
    """The component of torchtune that is the model, or goes with it; empty without one."""
    for key in ("model", "checkpointer", "tokenizer", "dataset", "loss", "policy_model"):
        section = top.get(key)
        if isinstance(section, MappingNode):
            entry = section.entry("_component_")
            name = str(_text(entry.value)) if entry is not None else ""
            if re.match(r"torchtune\.", name):
                return name
    return ""


def _text(node: Node | None) -> str | None:
    if node is None:
        return None
    one = resolved(node)
    return one.value if isinstance(one, Scalar) and isinstance(one.value, str) else None


class Method(Record):
    """A method of TRL. arguments: what its trainer takes besides model, arguments and data."""

    name: str
    config: str
    trainer: str
    model: str = "AutoModelForCausalLM"
    arguments: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


_ONLINE = ("reward_funcs",)
METHODS = (
    Method("sft", "trl.SFTConfig", "trl.SFTTrainer", words=("sft",)),
    Method("dpo", "trl.DPOConfig", "trl.DPOTrainer", words=("dpo",)),
    Method("grpo", "trl.GRPOConfig", "trl.GRPOTrainer", arguments=_ONLINE, words=("grpo",)),
    Method("kto", "trl.KTOConfig", "trl.KTOTrainer", words=("kto",)),
    Method("orpo", "trl.ORPOConfig", "trl.ORPOTrainer", words=("orpo",)),
    Method("cpo", "trl.CPOConfig", "trl.CPOTrainer", words=("cpo", "simpo")),
    Method(
        "reward", "trl.RewardConfig", "trl.RewardTrainer", "AutoModelForSequenceClassification",
        words=("reward", "rm"),
    ),
    Method("rloo", "trl.RLOOConfig", "trl.RLOOTrainer", arguments=_ONLINE, words=("rloo",)),
)  # fmt: skip
_HEAD = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)*")


def method_named(name: str) -> tuple[Method, ...]:
    """The method that TRL's command line, or a trainer's class, calls so; none if it is unknown."""
    return tuple(
        each for each in METHODS if each.name == name or each.trainer.rpartition(".")[2] == name
    )


def method_of_classes(classes: Sequence[str], api: Api) -> tuple[Method, ...]:
    """The method whose configuration is among classes that a recipe is read into; none where the
    recipe's program has classes of its own."""
    for name in classes:
        for each in METHODS:
            if api.canonical(each.config) == api.canonical(name):
                return (each,)
    for name in classes:
        if api.is_a(name, "transformers.Seq2SeqTrainingArguments"):
            return (Method("", name, "transformers.Seq2SeqTrainer"),)
        if api.is_a(name, "transformers.TrainingArguments"):
            return (Method("", name, "transformers.Trainer"),)
    return ()


def methods_of(source: Source, keys: Iterable[str], api: Api) -> tuple[Method, ...]:
    """The methods that a recipe with these keys may train by, most likely first; never empty."""
    options = {each.name: _own_options(api, each, keys) for each in METHODS}
    most = max(len(found) for found in options.values())
    likely = [each for each in METHODS if len(options[each.name]) == most]
    head = _HEAD.match(source.text)
    words = set(re.split(r"[^a-z]+", f"{source.path} {head[0] if head else ''}".lower()))
    named = [each for each in METHODS if words.intersection(each.words)]
    agreed = [each for each in named if each in likely]
    if len(agreed) == 1:
        return (agreed[0],)
    return tuple(dict.fromkeys([*likely, *named]))


def _own_options(api: Api, method: Method, keys: Iterable[str]) -> set[str]:
    """Those of ``keys`` that are options of the method's configuration and not of every one."""
    return {
        key
        for key in keys
        if api.history(method.config, key) is not None
        and api.history("transformers.TrainingArguments", key) is None
    }
