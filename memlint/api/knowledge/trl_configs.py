"""What became of the fields of TRL's configs and the keywords of its trainers.

A trainer keyword that its config has under the same name needs no line: it moves there. Neither
does one whose config field has a line of its own.
"""

from __future__ import annotations

from memlint.api.knowledge.migrations import Migration
from memlint.api.successors import Advice, Build, Remove, Rename, Runtime

_SFT = "trl.SFTConfig"
_DPO = "trl.DPOConfig"
_GRPO = "trl.GRPOConfig"
_RLOO = "trl.RLOOConfig"
_TRAINERS = ("trl.SFTTrainer", "trl.DPOTrainer", "trl.KTOTrainer", "trl.RewardTrainer")

_LIMITED = "limit_prompts({trainer}, {value})"
_NO_LIMIT_NOTE = "it cuts prompts as the trainer did while it had the option"

# Fields that told a trainer what it sees for itself.
_FOUND_OUT = {
    _DPO: "is_encoder_decoder label_pad_token_id padding_value use_num_logits_to_keep "
    "use_logits_to_keep generate_during_eval base_model_attribute_name",
    "trl.KTOConfig": "is_encoder_decoder label_pad_token_id padding_value generate_during_eval "
    "base_model_attribute_name",
    "trl.experimental.kto.KTOConfig": "is_encoder_decoder label_pad_token_id padding_value "
    "generate_during_eval base_model_attribute_name",
    "trl.experimental.cpo.CPOConfig": "label_pad_token_id padding_value",
    "trl.experimental.orpo.ORPOConfig": "label_pad_token_id",
}


def _both(owner: str, old: str, new: str, origin: str) -> tuple[Migration, Migration]:
    return (
        Migration(owner, old, (Rename(new, origin=origin),)),
        Migration(owner, new, (Rename(old, origin=origin),)),
    )


def _gone(
    owner: str, names: str, note: str, origin: str, *, safe: bool = True
) -> tuple[Migration, ...]:
    return tuple(
        Migration(owner, name, (Remove(note=note, origin=origin, safe=safe),))
        for name in names.split()
    )


def _advice(owner: str, names: str, note: str, origin: str = "") -> tuple[Migration, ...]:
    return tuple(
        Migration(owner, name, (Advice(note=note, origin=origin),)) for name in names.split()
    )


MIGRATIONS: tuple[Migration, ...] = (
    *_both(_SFT, "max_seq_length", "max_length", "trl/trainer/sft_config.py, 0.16"),
    *_both(_SFT, "use_liger", "use_liger_kernel", "trl/trainer/sft_config.py, 0.16"),
    *_gone(
        _SFT,
        "dataset_batch_size num_of_sequences chars_per_token",
        "packing no longer reads it",
        "trl/trainer/sft_config.py, 0.15",
    ),
    Migration(
        _SFT,
        "packing_strategy",
        (Build("packing_strategy", '"bfd_split"', origin="trl/trainer/sft_config.py, 1.0"),),
        values=("bfd-requeue",),
        since="1.0",
    ),
    Migration(
        _SFT,
        "packing_strategy",
        (Build("packing_strategy", '"bfd-requeue"', origin="trl/trainer/sft_config.py, 0.29"),),
        values=("bfd_split",),
        since="0.29",
        until="1.0",
    ),
    Migration(
        _SFT,
        "packing_strategy",
        (Build("packing_strategy", '"bfd"', origin="trl/trainer/sft_config.py, 0.20"),),
        values=("ffd",),
        since="0.20",
    ),
    Migration(
        _SFT,
        "packing_strategy",
        (Build("packing_strategy", '"ffd"', origin="trl/trainer/sft_config.py, 0.19"),),
        values=("bfd",),
        since="0.19",
        until="0.20",
    ),
    Migration(
        _SFT,
        "loss_type",
        (Remove(note="the default computes the same", origin="trl/trainer/sft_config.py, 1.15"),),
        values=("chunked_nll",),
        since="1.15",
    ),
    *_advice(
        _SFT,
        "pad_token",
        "set tokenizer.pad_token and give the tokenizer as processing_class",
        "trl/trainer/sft_config.py, 1.1",
    ),
    *_advice(
        _DPO,
        "pad_token",
        "set tokenizer.pad_token and give the tokenizer as processing_class",
        "trl/trainer/dpo_config.py, 1.1",
    ),
    Migration(
        "trl.SFTTrainer",
        "infinite",
        (
            Remove(
                note="max_steps or num_train_epochs decides", origin="trl/trainer/sft_trainer.py"
            ),
        ),
    ),
    Migration(
        "trl.SFTTrainer",
        "compute_loss_func",
        (Advice(note="override compute_loss in a subclass; full logits cost an extra forward"),),
    ),
    *(
        Migration(
            trainer,
            "model_init",
            (Advice(note="build the model first and give it as model"),),
        )
        for trainer in _TRAINERS
    ),
    # The loss without logits has been Liger's, then the trainers' own.
    *(
        line
        for owner in (_DPO, _GRPO, "trl.KTOConfig", "trl.experimental.kto.KTOConfig")
        for line in (
            Migration(
                owner,
                "use_liger_loss",
                (Rename("use_liger_kernel", origin="trl/trainer/dpo_config.py, 0.25"),),
                since="0.25",
                until="1.15",
            ),
            Migration(
                owner,
                "use_liger_loss",
                (
                    Remove(
                        note="the trainer's own loss keeps no logits", origin="trl/trainer, 1.15"
                    ),
                ),
                since="1.15",
            ),
        )
    ),
    # Deprecated without a name of its own that does the same.
    *(
        Migration(
            owner,
            "use_liger_kernel",
            (
                Advice(
                    "Leave it out: the loss keeps no logits by itself; kernels of the Hub replace "
                    "the layers' (`use_kernels=True` where the model is loaded)",
                    origin="trl/trainer/base_config.py, 1.15",
                ),
            ),
            since="1.15",
        )
        for owner in (_SFT, _DPO, _GRPO)
    ),
    # Limits of prompt and completion apart: DPO has one limit for both since 0.29.
    Migration(
        _DPO,
        "max_prompt_length",
        (
            Runtime(
                "memlint_runtime.limit_prompts",
                "trainer",
                _LIMITED,
                note=_NO_LIMIT_NOTE,
                origin="trl/trainer/dpo_config.py, 0.28",
            ),
        ),
    ),
    *_gone(
        _DPO,
        "max_completion_length max_target_length",
        "max_length limits prompt and completion together",
        "trl/trainer/dpo_config.py, 0.28",
        safe=False,
    ),
    *(
        Migration(
            owner,
            "max_prompt_length",
            (
                Runtime(
                    "memlint_runtime.limit_prompts",
                    "trainer",
                    _LIMITED,
                    note=_NO_LIMIT_NOTE,
                    origin="trl/trainer/grpo_config.py, 0.28; kto_config.py, 0.27",
                ),
            ),
        )
        for owner in (
            _GRPO,
            _RLOO,
            "trl.KTOConfig",
            "trl.experimental.kto.KTOConfig",
            "trl.experimental.cpo.CPOConfig",
            "trl.experimental.orpo.ORPOConfig",
        )
    ),
    *(
        line
        for owner in ("trl.KTOConfig", "trl.experimental.kto.KTOConfig")
        for line in _gone(
            owner,
            "max_completion_length truncation_mode",
            "max_length limits prompt and completion together",
            "trl/trainer/kto_config.py, 1.8; trl/experimental/kto, 0.27",
            safe=False,
        )
    ),
    *(
        line
        for owner in ("trl.experimental.cpo.CPOConfig", "trl.experimental.orpo.ORPOConfig")
        for line in _gone(
            owner,
            "truncation_mode",
            "max_length limits prompt and completion together",
            "trl/experimental/cpo, 0.28 and 1.0",
            safe=False,
        )
    ),
    *(
        line
        for owner, names in _FOUND_OUT.items()
        for line in _gone(owner, names, "the trainer finds it out by itself", "trl, 0.26 to 0.29")
    ),
    *_gone(_DPO, "force_use_ref_model", "give ref_model and it is used", "dpo_config.py, 0.28"),
    *_gone(
        _DPO,
        "model_adapter_name ref_adapter_name",
        "the reference is the model without its adapter, or its adapter called ref",
        "trl/trainer/dpo_config.py, 0.28",
        safe=False,
    ),
    *_advice(
        "trl.KTOConfig",
        "ref_model_init_kwargs",
        "load the reference model yourself and give it as ref_model",
        "trl/trainer/kto_config.py",
    ),
    *_advice(
        _DPO,
        "ref_model_init_kwargs",
        "load the reference model yourself and give it as ref_model",
        "trl/trainer/dpo_config.py, 0.28",
    ),
    *_advice(
        _DPO,
        "reference_free",
        "use CPOTrainer (SimPO) of trl.experimental.cpo",
        "trl/trainer/dpo_config.py, 0.28",
    ),
    Migration(
        _DPO,
        "rpo_alpha",
        (
            Advice(
                note='write loss_type=["sigmoid", "sft"] with loss_weights=[1.0, rpo_alpha]',
                origin="trl/trainer/dpo_config.py, 0.28",
            ),
        ),
    ),
    *_gone(_DPO, "tools", "put the tools into the dataset's column", "dpo_config.py", safe=False),
    Migration(
        _DPO,
        "loss_type",
        (Advice(note="use ORPOTrainer of trl.experimental.orpo"),),
        values=("orpo",),
    ),
    Migration(
        _DPO,
        "loss_type",
        (Advice(note="use KTOTrainer: its data are not pairs"),),
        values=("kto",),
    ),
    Migration(
        _DPO,
        "loss_type",
        (Advice(note="use CPOTrainer of trl.experimental.cpo"),),
        values=("simpo", "cpo"),
    ),
    # vLLM beside the training process, 0.18.
    Migration(
        _GRPO,
        "vllm_max_model_len",
        (Rename("vllm_max_model_length", origin="grpo_config.py, 0.26"), Remove(safe=False)),
    ),
    *_gone(
        _GRPO,
        "vllm_device vllm_dtype vllm_enable_prefix_caching",
        "vLLM runs beside the trainer or as a server since 0.18",
        "trl/trainer/grpo_config.py, 0.16",
    ),
    *(
        line
        for owner in (_GRPO, _RLOO)
        for line in (
            Migration(
                owner,
                "vllm_guided_decoding_regex",
                (Rename("vllm_structured_outputs_regex", origin="grpo_config.py, 0.27"),),
            ),
            Migration(
                owner,
                "wandb_log_unique_prompts",
                (Rename("log_unique_prompts", origin="grpo_config.py, 0.26"),),
            ),
            Migration(
                owner,
                "use_transformers_paged",
                (Rename("use_transformers_continuous_batching", origin="grpo_config.py, 1.2"),),
            ),
        )
    ),
    Migration(
        _GRPO,
        "vllm_importance_sampling_cap",
        (Rename("vllm_importance_sampling_clip_max", origin="grpo_config.py, 1.6"),),
    ),
    # RLOO became GRPO's sibling in 0.22.
    Migration(_RLOO, "rloo_k", (Rename("num_generations", origin="rloo_config.py, 0.22"),)),
    Migration(_RLOO, "cliprange", (Rename("epsilon", origin="rloo_config.py, 0.22"),)),
    Migration(_RLOO, "kl_coef", (Rename("beta", origin="rloo_config.py, 0.22"),)),
    Migration(_RLOO, "exp_name", (Rename("run_name", origin="rloo_config.py, 0.22"),)),
    Migration(
        _RLOO, "normalize_reward", (Rename("normalize_advantages", origin="rloo_config.py"),)
    ),
    Migration(_RLOO, "num_ppo_epochs", (Rename("num_iterations", origin="rloo_config.py, 0.22"),)),
    Migration(
        _RLOO, "num_mini_batches", (Rename("steps_per_generation", origin="rloo_config.py"),)
    ),
    *_advice(
        _RLOO,
        "total_episodes",
        "set max_steps: one step is per_device_train_batch_size * gradient_accumulation_steps "
        "episodes on each GPU",
        "trl/trainer/rloo_config.py, 0.22",
    ),
    *_gone(
        _RLOO,
        "token_level_kl dataset_num_proc local_rollout_forward_batch_size num_sample_generations "
        "stop_token stop_token_id missing_eos_penalty",
        "the trainer no longer reads it",
        "trl/trainer/rloo_config.py, 0.22",
    ),
    Migration(
        _RLOO, "response_length", (Rename("max_completion_length", origin="rloo_config.py, 0.22"),)
    ),
    Migration(
        "trl.OnlineDPOConfig",
        "gpu_memory_utilization",
        (Rename("vllm_gpu_memory_utilization", origin="online_dpo_config.py, 0.23"),),
    ),
    *_both("trl.ModelConfig", "torch_dtype", "dtype", "trl/trainer/model_config.py, 0.23"),
)
