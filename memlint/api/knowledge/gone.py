"""What became of options and names of the libraries that are gone, or may be.

A row of a table: what is asked for, what takes its place, a sentence for people; where that was
read stands in the comment. ``rows_of`` explains the words. What only moved needs no row: a name
that exactly one module of the target still offers is found there (``trl.ORPOTrainer`` in
``trl.experimental.orpo``), and so is a keyword of a trainer that its configuration has.
"""

from memlint.api.knowledge.migrations import Migration, rows_of
from memlint.api.successors import Build, Inline, Replace, Runtime

# By the classes and functions that take the options. A class's line holds for its subclasses.
_OPTIONS = """
trl.SFTConfig
  max_seq_length | use max_length  # sft_config.py, 0.16
  max_length | use max_seq_length  # sft_config.py, 0.16
  use_liger | use use_liger_kernel  # sft_config.py, 0.16
  use_liger_kernel | use use_liger  # sft_config.py, 0.16
  dataset_batch_size num_of_sequences chars_per_token | remove | packing no longer reads it
      # sft_config.py, 0.15
  packing_strategy = "bfd-requeue" since 1.0 | packing_strategy = "bfd_split"  # sft_config.py, 1.0
  packing_strategy = "bfd_split" since 0.29 until 1.0 | packing_strategy = "bfd-requeue"
      # sft_config.py, 0.29
  packing_strategy = "ffd" since 0.20 | packing_strategy = "bfd"  # sft_config.py, 0.20
  packing_strategy = "bfd" since 0.19 until 0.20 | packing_strategy = "ffd"  # sft_config.py, 0.19
  loss_type = "chunked_nll" since 1.15 | remove | the default computes the same
      # sft_config.py, 1.15
trl.SFTConfig trl.DPOConfig
  pad_token | advice | set tokenizer.pad_token and give the tokenizer as processing_class
      # sft_config.py, 1.1; dpo_config.py, 1.1
trl.SFTTrainer
  infinite | remove | max_steps or num_train_epochs decides  # sft_trainer.py
  compute_loss_func | advice | override compute_loss in a subclass; full logits cost an extra
      forward
trl.SFTTrainer trl.DPOTrainer trl.KTOTrainer trl.RewardTrainer
  model_init | advice | build the model first and give it as model
trl.DPOConfig trl.GRPOConfig trl.KTOConfig trl.experimental.kto.KTOConfig
  use_liger_loss since 0.25 until 1.15 | use use_liger_kernel  # dpo_config.py, 0.25
  use_liger_loss since 1.15 | remove | the trainer's own loss keeps no logits  # trl/trainer, 1.15
trl.SFTConfig trl.DPOConfig trl.GRPOConfig
  use_liger_kernel since 1.15 | advice | Leave it out: the loss keeps no logits by itself; kernels
      of the Hub replace the layers' (`use_kernels=True` where the model is loaded)
      # base_config.py, 1.15
trl.DPOConfig trl.KTOConfig trl.experimental.kto.KTOConfig
  max_completion_length | remove unsafely | max_length limits prompt and completion together
      # dpo_config.py, 0.28; kto_config.py, 1.8; trl/experimental/kto, 0.27
  is_encoder_decoder generate_during_eval base_model_attribute_name | remove | the trainer finds it
      out by itself  # trl, 0.26 to 0.29
trl.DPOConfig
  max_target_length | remove unsafely | max_length limits prompt and completion together
      # dpo_config.py, 0.28
  use_num_logits_to_keep use_logits_to_keep | remove | the trainer finds it out by itself
      # trl, 0.26 to 0.29
  force_use_ref_model | remove | give ref_model and it is used  # dpo_config.py, 0.28
  model_adapter_name ref_adapter_name | remove unsafely | the reference is the model without its
      adapter, or its adapter called ref  # dpo_config.py, 0.28
  reference_free | advice | use CPOTrainer (SimPO) of trl.experimental.cpo  # dpo_config.py, 0.28
  rpo_alpha | advice | write loss_type=["sigmoid", "sft"] with loss_weights=[1.0, rpo_alpha]
      # dpo_config.py, 0.28
  tools | remove unsafely | put the tools into the dataset's column  # dpo_config.py
  loss_type = "orpo" | advice | use ORPOTrainer of trl.experimental.orpo
  loss_type = "kto" | advice | use KTOTrainer: its data are not pairs
  loss_type = "simpo", "cpo" | advice | use CPOTrainer of trl.experimental.cpo
trl.KTOConfig trl.experimental.kto.KTOConfig trl.experimental.cpo.CPOConfig
    trl.experimental.orpo.ORPOConfig
  truncation_mode | remove unsafely | max_length limits prompt and completion together
      # kto_config.py, 1.8; trl/experimental/kto, 0.27; trl/experimental/cpo, 0.28 and 1.0
trl.DPOConfig trl.KTOConfig trl.experimental.kto.KTOConfig trl.experimental.cpo.CPOConfig
    trl.experimental.orpo.ORPOConfig
  label_pad_token_id | remove | the trainer finds it out by itself  # trl, 0.26 to 0.29
trl.DPOConfig trl.KTOConfig trl.experimental.kto.KTOConfig trl.experimental.cpo.CPOConfig
  padding_value | remove | the trainer finds it out by itself  # trl, 0.26 to 0.29
trl.KTOConfig trl.DPOConfig
  ref_model_init_kwargs | advice | load the reference model yourself and give it as ref_model
      # kto_config.py; dpo_config.py, 0.28
trl.GRPOConfig
  vllm_max_model_len | use vllm_max_model_length  # grpo_config.py, 0.26
  vllm_max_model_len | remove unsafely
  vllm_device vllm_dtype vllm_enable_prefix_caching | remove | vLLM runs beside the trainer or as a
      server since 0.18  # grpo_config.py, 0.16
  vllm_importance_sampling_cap | use vllm_importance_sampling_clip_max  # grpo_config.py, 1.6
trl.GRPOConfig trl.RLOOConfig
  vllm_guided_decoding_regex | use vllm_structured_outputs_regex  # grpo_config.py, 0.27
  wandb_log_unique_prompts | use log_unique_prompts  # grpo_config.py, 0.26
  use_transformers_paged | use use_transformers_continuous_batching  # grpo_config.py, 1.2
trl.RLOOConfig
  rloo_k | use num_generations  # rloo_config.py, 0.22
  cliprange | use epsilon  # rloo_config.py, 0.22
  kl_coef | use beta  # rloo_config.py, 0.22
  exp_name | use run_name  # rloo_config.py, 0.22
  normalize_reward | use normalize_advantages  # rloo_config.py
  num_ppo_epochs | use num_iterations  # rloo_config.py, 0.22
  num_mini_batches | use steps_per_generation  # rloo_config.py
  total_episodes | advice | set max_steps: one step is per_device_train_batch_size *
      gradient_accumulation_steps episodes on each GPU  # rloo_config.py, 0.22
  token_level_kl dataset_num_proc local_rollout_forward_batch_size num_sample_generations
      stop_token stop_token_id | remove | the trainer no longer reads it  # rloo_config.py, 0.22
  missing_eos_penalty | remove unsafely | take it off in a reward function  # rloo_config.py, 0.22
  response_length | use max_completion_length  # rloo_config.py, 0.22
trl.OnlineDPOConfig
  gpu_memory_utilization | use vllm_gpu_memory_utilization  # online_dpo_config.py, 0.23
trl.ModelConfig transformers.PreTrainedModel.from_pretrained
    transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained
  torch_dtype | use dtype  # model_config.py, 0.23; modeling_utils.py, from_pretrained, since 4.56
  dtype | use torch_dtype  # model_config.py, 0.23; modeling_utils.py, from_pretrained, until 4.55
transformers.TrainingArguments
  evaluation_strategy | use eval_strategy  # training_args.py
  eval_strategy | use evaluation_strategy  # training_args.py
  gradient_checkpointing | use activation_checkpointing  # training_args.py
  activation_checkpointing | use gradient_checkpointing  # training_args.py
  gradient_checkpointing_kwargs | use activation_checkpointing_kwargs  # training_args.py
  activation_checkpointing_kwargs | use gradient_checkpointing_kwargs  # training_args.py
  warmup_ratio since 5.0 | use warmup_steps | a value below 1 is a share of all steps
      # training_args.py
  group_by_length = True | train_sampling_strategy = "group_by_length"  # training_args.py
  group_by_length = False | remove | rows are drawn at random by default  # training_args.py
  group_by_length | train_sampling_strategy = "group_by_length" if {value} else "random"
      # training_args.py
  train_sampling_strategy = "group_by_length" | group_by_length = True  # training_args.py
  train_sampling_strategy = "random" | remove | rows are drawn at random by default
      # training_args.py
  logging_dir since 5.0 | environment TENSORBOARD_LOGGING_DIR | TensorBoard's folder is read from
      the environment  # integrations/integration_utils.py, TensorBoardCallback
  optim = "adamw_hf" since 4.50 | optim = "adamw_torch" | the same update, from torch
      # optimization.py, AdamW
  optim = "adamw_apex_fused" since 5.8 | optim = "adamw_torch_fused" | the same update, fused by
      torch  # training_args.py, OptimizerNames, 5.8
  no_cuda | use use_cpu  # training_args.py
  per_gpu_train_batch_size | use per_device_train_batch_size
  per_gpu_eval_batch_size | use per_device_eval_batch_size
  adafactor = True | optim = "adafactor"  # training_args.py
  adafactor include_inputs_for_metrics tpu_metrics_debug = False | remove  # training_args.py
  torchdynamo | use torch_compile_backend  # training_args.py
  push_to_hub_token | use hub_token  # training_args.py
  push_to_hub_model_id | use hub_model_id  # training_args.py
  push_to_hub_organization | advice | write the organization into hub_model_id: organization/model
  include_inputs_for_metrics = True | include_for_metrics = ["inputs"]  # training_args.py
  include_tokens_per_second | use include_num_input_tokens_seen | throughput is logged with it
  dispatch_batches | accelerator_config = {{"dispatch_batches": {value}}}  # training_args.py
  split_batches | accelerator_config = {{"split_batches": {value}}}  # training_args.py
  fsdp_min_num_params | fsdp_config = {{"min_num_params": {value}}}  # training_args.py
  fsdp_transformer_layer_cls_to_wrap | fsdp_config = {{"transformer_layer_cls_to_wrap": {value}}}
      # training_args.py
  tpu_metrics_debug = True | debug = "tpu_metrics_debug"  # training_args.py
  save_safetensors | remove | checkpoints are always safetensors  # 5.0
  overwrite_output_dir | remove | Trainer never read it  # 5.0
  fp16_backend half_precision_backend | remove | there is one backend  # 5.0
  fp16_opt_level | remove | apex is no longer supported  # 5.0
  jit_mode_eval | remove | jit in evaluation is gone  # 5.0
  use_ipex | remove | the extension is no longer supported  # 5.0
  use_mps_device | remove | a Mac's GPU is used where there is one  # 5.0
  past_index | remove | models with that kind of state are gone  # 5.0
  ray_scope | remove | ask the search backend for it  # 5.0
  mp_parameters | remove | that launcher is no longer supported  # 5.0
  tpu_num_cores | remove | the launcher decides  # 5.0
  use_legacy_prediction_loop | remove | there is one loop  # 5.0
  tp_size | remove | give tp_plan to from_pretrained instead  # 5.0
transformers.Trainer
  tokenizer | use processing_class  # trainer.py, since 4.46
  processing_class | use tokenizer  # trainer.py, until 4.45
transformers.PreTrainedModel.from_pretrained
    transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained
  load_in_4bit load_in_8bit = False, None | remove | not quantizing is the default
      # modeling_utils.py, from_pretrained
  use_flash_attention_2 = True | attn_implementation = "flash_attention_2"
      # modeling_utils.py, from_pretrained
  use_flash_attention_2 = False | remove  # modeling_utils.py, from_pretrained
  use_flash_attention_2 | attn_implementation = "flash_attention_2" if {value} else None
      # modeling_utils.py, from_pretrained
  low_cpu_mem_usage _fast_init offload_state_dict | remove | always so since 5.0
      # modeling_utils.py, from_pretrained
  resume_download | remove | downloads are always resumed  # utils/hub.py
transformers.PreTrainedModel.from_pretrained
    transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained
    transformers.AutoTokenizer.from_pretrained transformers.PreTrainedTokenizerBase.from_pretrained
    transformers.AutoConfig.from_pretrained transformers.AutoProcessor.from_pretrained
    datasets.load_dataset datasets.load_dataset_builder
  use_auth_token | use token  # utils/hub.py; datasets/load.py, load_dataset
datasets.load_dataset
  ignore_verifications = True | verification_mode = "no_checks"  # datasets/load.py, load_dataset
  ignore_verifications = False | remove  # datasets/load.py, load_dataset
  task | advice | rename the columns with `rename_columns`  # datasets/load.py, load_dataset
"""

_NAMES = """
  trl.set_seed trl.core.set_seed | now transformers.set_seed  # trl/core.py, 0.12
  trl.PPOv2Config | now trl.PPOConfig  # ppov2_config.py, 0.12
  trl.PPOv2Trainer | now trl.PPOTrainer  # ppov2_trainer.py, 0.12
  trl.SFTScriptArguments trl.DPOScriptArguments trl.SftScriptArguments trl.DpoScriptArguments | now
      trl.ScriptArguments  # trl/utils.py, 0.12
  trl.is_peft_available trl.import_utils.is_peft_available | now
      transformers.utils.is_peft_available  # trl/import_utils.py
  trl.is_bitsandbytes_available | now transformers.utils.is_bitsandbytes_available
      # trl/import_utils.py
  trl.is_npu_available trl.import_utils.is_npu_available | now
      transformers.utils.is_torch_npu_available
  trl.is_xpu_available trl.import_utils.is_xpu_available | now
      transformers.utils.is_torch_xpu_available
  trl.is_rich_available trl.import_utils.is_rich_available | now
      transformers.utils.is_rich_available
  trl.setup_chat_format | now memlint_runtime.setup_chat_format  # trl/models/utils.py, 0.26
  trl.DataCollatorForCompletionOnlyLM | now memlint_runtime.DataCollatorForCompletionOnlyLM
      # utils.py, 0.20
  trl.trainer.ConstantLengthDataset trl.trainer.utils.ConstantLengthDataset | advice | set
      packing=True in SFTConfig  # utils.py, 0.20
  trl.trainer.utils.DPODataCollatorWithPadding | advice | DPOTrainer brings its own collator
      # dpo_trainer.py, 0.26
  trl.trainer.utils.RewardDataCollatorWithPadding | advice | RewardTrainer brings its own collator
      # reward_trainer.py, 0.24
  trl.PPOTrainer trl.PPOConfig trl.AutoModelForCausalLMWithValueHead
      trl.AutoModelForSeq2SeqLMWithValueHead trl.PreTrainedModelWrapper | advice | PPO left TRL in
      1.13: use GRPOTrainer or RLOOTrainer, or take trl 1.12 with `trl.experimental.ppo`
      # trl/experimental/ppo, until 1.12
  trl.BCOTrainer trl.BCOConfig trl.NashMDTrainer trl.NashMDConfig trl.XPOTrainer trl.XPOConfig
      trl.PRMTrainer trl.PRMConfig | advice | TRL has no such trainer any more: stay below trl
      1.14, whose `trl.experimental` has it since 0.29
  trl.DDPOTrainer trl.DDPOConfig trl.AlignPropTrainer trl.AlignPropConfig
      trl.DefaultDDPOStableDiffusionPipeline trl.IterativeSFTTrainer trl.IterativeSFTConfig |
      advice | TRL has no such trainer any more: stay below trl 0.24
  trl.BestOfNSampler trl.core.LengthSampler trl.TextEnvironment trl.TextHistory | advice | TRL no
      longer has it: write the few lines yourself
  trl.PairRMJudge trl.HfPairwiseJudge trl.OpenAIPairwiseJudge trl.BasePairwiseJudge trl.BaseJudge
      trl.WinRateCallback | advice | judges were removed from TRL; score with a reward function
  trl.truncate_dataset | advice | set max_length in the config  # trl/data_utils.py
  trl.pack_examples | now trl.pack_dataset  # trl/data_utils.py, 0.17
  transformers.Trainer.tokenizer | now transformers.Trainer.processing_class
  transformers.Trainer.processing_class | now transformers.Trainer.tokenizer
  transformers.PreTrainedModel.to_bettertransformer
      transformers.PreTrainedModel.reverse_bettertransformer since 5.0 | advice | remove the call:
      models use torch's fused attention by default (sdpa)  # modeling_utils.py, 5.0
  transformers.utils.default_cache_path since 5.0 | now
      huggingface_hub.constants.default_cache_path  # utils/hub.py, 4.57
  transformers.PreTrainedTokenizerBase.encode_plus since 5.0 | now
      transformers.PreTrainedTokenizerBase.__call__  # tokenization_utils_base.py
  transformers.PreTrainedTokenizerBase.as_target_tokenizer since 5.0 | advice | tokenize targets
      with tokenizer(text_target=...)
  transformers.PreTrainedTokenizerBase.prepare_seq2seq_batch since 5.0 | advice | tokenize with
      tokenizer(text, text_target=...)
  transformers.AutoModelForVision2Seq | now transformers.AutoModelForImageTextToText
      # modeling_auto.py
  transformers.AutoModelForImageTextToText | now transformers.AutoModelForVision2Seq
      # modeling_auto.py
  transformers.AutoModelWithLMHead | advice | use AutoModelForCausalLM, AutoModelForMaskedLM or
      AutoModelForSeq2SeqLM, whichever the model is
  transformers.deepspeed.HfDeepSpeedConfig | now transformers.integrations.HfDeepSpeedConfig
  transformers.deepspeed.is_deepspeed_zero3_enabled | now
      transformers.integrations.is_deepspeed_zero3_enabled
  transformers.deepspeed.deepspeed_init | now transformers.integrations.deepspeed_init
  transformers.deepspeed | now transformers.integrations.deepspeed
  transformers.utils.send_example_telemetry | remove | examples report no use any more
      # utils, 4.57
  transformers.is_torch_tpu_available | now transformers.is_torch_xla_available
  transformers.modeling_utils.shard_checkpoint | advice |
      huggingface_hub.split_torch_state_dict_into_shards does it now
  transformers.TextDataset transformers.LineByLineTextDataset transformers.LineByLineWithRefDataset
      | advice | build the dataset with datasets.load_dataset and a tokenizing map
  transformers.infer_device | advice | torch.accelerator.current_accelerator() says what there is
  peft.prepare_model_for_int8_training | now peft.prepare_model_for_kbit_training
      # peft/utils/other.py, 0.7
  datasets.load_metric | advice | `evaluate.load` of the `evaluate` package loads metrics
      # datasets/inspect.py and metric.py, until 2.21
  datasets.list_metrics datasets.inspect_metric datasets.Metric datasets.MetricInfo | advice | the
      `evaluate` package has the metrics  # datasets/inspect.py and metric.py, until 2.21
"""

_LOADS = (
    "transformers.PreTrainedModel.from_pretrained",
    "transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained",
)
_QUANTIZING = (
    *("load_in_4bit", "load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type"),
    *("bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload"),
)
_BITS = "transformers.BitsAndBytesConfig"
_LOADER = "accelerate.DataLoaderConfiguration"
_LOADING = ("dispatch_batches", "even_batches", "split_batches", "use_seedable_sampler")
# Limits of prompt and completion apart: DPO has one limit for both since trl 0.29.
_LIMITED = (
    *("trl.DPOConfig", "trl.GRPOConfig", "trl.RLOOConfig", "trl.KTOConfig"),
    *("trl.experimental.kto.KTOConfig", "trl.experimental.cpo.CPOConfig"),
    "trl.experimental.orpo.ORPOConfig",
)
_LIMIT = Runtime(
    "memlint_runtime.limit_prompts",
    "trainer",
    "limit_prompts({trainer}, {value})",
    note="it cuts prompts as the trainer did while it had the option",
)


def _into(parameter: str, cls: str, name: str, others: tuple[str, ...]) -> Build:
    """The option becomes one of a configuration that is given as ``parameter``."""
    source = f"{cls.rpartition('.')[2]}({name}={{value}})"
    return Build(parameter, source, imports=(cls,), merge=others)


MIGRATIONS: tuple[Migration, ...] = (
    *rows_of(_OPTIONS),
    *rows_of(_NAMES),
    *(Migration(owner, "max_prompt_length", _LIMIT) for owner in _LIMITED),
    *(
        Migration(owner, name, _into("quantization_config", _BITS, name, _QUANTIZING))
        for owner in _LOADS
        for name in _QUANTIZING[:2]
    ),
    *(
        Migration(
            "accelerate.Accelerator", name, _into("dataloader_config", _LOADER, name, _LOADING)
        )
        for name in _LOADING
        if name != "split_batches"
    ),
    Migration(
        "trl.get_kbit_device_map",
        None,
        Inline('{"": PartialState().local_process_index}', imports=("accelerate.PartialState",)),
    ),
    Migration(
        "transformers.PreTrainedTokenizerBase.batch_encode_plus",
        None,
        Replace(
            "transformers.PreTrainedTokenizerBase.__call__",
            arguments=(("batch_text_or_text_pairs", "text"),),
        ),
        since="5.0",
    ),
    # transformers' AdamW had an epsilon and a weight decay of its own (optimization.py).
    Migration(
        "transformers.AdamW",
        None,
        Replace(
            "torch.optim.AdamW",
            arguments=(("correct_bias", None), ("no_deprecation_warning", None)),
            written=(("eps", "1e-6"), ("weight_decay", "0.0")),
        ),
    ),
)
