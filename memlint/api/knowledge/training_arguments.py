"""What became of the fields of ``TrainingArguments`` and the keywords of ``Trainer``."""

from __future__ import annotations

from memlint.api.knowledge.migrations import Migration
from memlint.api.successors import Advice, Build, Environment, Remove, Rename, Replace

_ARGS = "transformers.TrainingArguments"
_TRAINER = "transformers.Trainer"
_SOURCE = "transformers/training_args.py"
_GONE_IN_5 = "transformers 5.0 release: deprecated and unused options removed"


def _renamed(old: str, new: str, origin: str = _SOURCE) -> tuple[Migration, Migration]:
    """Two names of one thing, each the successor of the other."""
    return (
        Migration(_ARGS, old, (Rename(new, origin=origin),)),
        Migration(_ARGS, new, (Rename(old, origin=origin),)),
    )


def _without_effect(name: str, note: str) -> Migration:
    return Migration(_ARGS, name, (Remove(note=note, origin=_GONE_IN_5),))


MIGRATIONS: tuple[Migration, ...] = (
    *_renamed("evaluation_strategy", "eval_strategy"),
    *_renamed("gradient_checkpointing", "activation_checkpointing"),
    *_renamed("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
    # Ratios: warmup_steps below 1 is a share of all steps since 5.0 (get_warmup_steps).
    Migration(
        _ARGS,
        "warmup_ratio",
        (Rename("warmup_steps", note="a value below 1 is a share of all steps", origin=_SOURCE),),
        since="5.0",
    ),
    Migration(
        _ARGS,
        "group_by_length",
        (
            Build(
                "train_sampling_strategy",
                '"group_by_length"',
                origin=_SOURCE,
            ),
        ),
        values=(True,),
    ),
    Migration(
        _ARGS,
        "group_by_length",
        (Remove(note="rows are drawn at random by default", origin=_SOURCE),),
        values=(False,),
    ),
    Migration(
        _ARGS,
        "group_by_length",
        (
            Build(
                "train_sampling_strategy",
                '"group_by_length" if {value} else "random"',
                origin=_SOURCE,
            ),
        ),
    ),
    Migration(
        _ARGS,
        "train_sampling_strategy",
        (Build("group_by_length", "True", origin=_SOURCE),),
        values=("group_by_length",),
    ),
    Migration(
        _ARGS,
        "train_sampling_strategy",
        (Remove(note="rows are drawn at random by default", origin=_SOURCE),),
        values=("random",),
    ),
    Migration(
        _ARGS,
        "logging_dir",
        (
            Environment(
                "TENSORBOARD_LOGGING_DIR",
                note="TensorBoard's folder is read from the environment",
                origin="transformers/integrations/integration_utils.py, TensorBoardCallback",
            ),
        ),
        since="5.0",
    ),
    Migration(
        _ARGS,
        "optim",
        (
            Build(
                "optim",
                '"adamw_torch"',
                note="the same update, from torch",
                origin="transformers/optimization.py, AdamW",
            ),
        ),
        values=("adamw_hf",),
        since="4.50",
    ),
    Migration(
        _ARGS,
        "optim",
        (
            Build(
                "optim",
                '"adamw_torch_fused"',
                note="the same update, fused by torch",
                origin="transformers/training_args.py, OptimizerNames, 5.8",
            ),
        ),
        values=("adamw_apex_fused",),
        since="5.8",
    ),
    Migration(_ARGS, "no_cuda", (Rename("use_cpu", origin=_SOURCE),)),
    Migration(_ARGS, "per_gpu_train_batch_size", (Rename("per_device_train_batch_size"),)),
    Migration(_ARGS, "per_gpu_eval_batch_size", (Rename("per_device_eval_batch_size"),)),
    Migration(_ARGS, "adafactor", (Build("optim", '"adafactor"', origin=_SOURCE),), values=(True,)),
    Migration(_ARGS, "adafactor", (Remove(origin=_SOURCE),), values=(False,)),
    Migration(_ARGS, "torchdynamo", (Rename("torch_compile_backend", origin=_SOURCE),)),
    Migration(_ARGS, "push_to_hub_token", (Rename("hub_token", origin=_SOURCE),)),
    Migration(_ARGS, "push_to_hub_model_id", (Rename("hub_model_id", origin=_SOURCE),)),
    Migration(
        _ARGS,
        "push_to_hub_organization",
        (Advice(note="write the organization into hub_model_id: organization/model"),),
    ),
    Migration(
        _ARGS,
        "include_inputs_for_metrics",
        (Build("include_for_metrics", '["inputs"]', origin=_SOURCE),),
        values=(True,),
    ),
    Migration(_ARGS, "include_inputs_for_metrics", (Remove(origin=_SOURCE),), values=(False,)),
    Migration(
        _ARGS,
        "include_tokens_per_second",
        (Rename("include_num_input_tokens_seen", note="throughput is logged with it"),),
    ),
    Migration(
        _ARGS,
        "dispatch_batches",
        (Build("accelerator_config", '{{"dispatch_batches": {value}}}', origin=_SOURCE),),
    ),
    Migration(
        _ARGS,
        "split_batches",
        (Build("accelerator_config", '{{"split_batches": {value}}}', origin=_SOURCE),),
    ),
    Migration(
        _ARGS,
        "fsdp_min_num_params",
        (Build("fsdp_config", '{{"min_num_params": {value}}}', origin=_SOURCE),),
    ),
    Migration(
        _ARGS,
        "fsdp_transformer_layer_cls_to_wrap",
        (Build("fsdp_config", '{{"transformer_layer_cls_to_wrap": {value}}}', origin=_SOURCE),),
    ),
    Migration(
        _ARGS,
        "tpu_metrics_debug",
        (Build("debug", '"tpu_metrics_debug"', origin=_SOURCE),),
        values=(True,),
    ),
    Migration(_ARGS, "tpu_metrics_debug", (Remove(origin=_SOURCE),), values=(False,)),
    Migration(
        _ARGS,
        "save_safetensors",
        (Remove(note="checkpoints are always safetensors", origin=_GONE_IN_5),),
    ),
    _without_effect("overwrite_output_dir", "Trainer never read it"),
    _without_effect("fp16_backend", "there is one backend"),
    _without_effect("half_precision_backend", "there is one backend"),
    _without_effect("fp16_opt_level", "apex is no longer supported"),
    _without_effect("jit_mode_eval", "jit in evaluation is gone"),
    _without_effect("use_ipex", "the extension is no longer supported"),
    _without_effect("use_mps_device", "a Mac's GPU is used where there is one"),
    _without_effect("past_index", "models with that kind of state are gone"),
    _without_effect("ray_scope", "ask the search backend for it"),
    _without_effect("mp_parameters", "that launcher is no longer supported"),
    _without_effect("tpu_num_cores", "the launcher decides"),
    _without_effect("use_legacy_prediction_loop", "there is one loop"),
    _without_effect("tp_size", "give tp_plan to from_pretrained instead"),
    Migration(
        _TRAINER,
        "tokenizer",
        (Rename("processing_class", origin="transformers/trainer.py, since 4.46"),),
    ),
    Migration(
        _TRAINER,
        "processing_class",
        (Rename("tokenizer", origin="transformers/trainer.py, until 4.45"),),
    ),
    Migration(f"{_TRAINER}.tokenizer", None, (Replace(f"{_TRAINER}.processing_class"),)),
    Migration(f"{_TRAINER}.processing_class", None, (Replace(f"{_TRAINER}.tokenizer"),)),
)
