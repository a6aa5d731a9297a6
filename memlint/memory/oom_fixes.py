"""What helps against each kind of tensor: rules that fix it, and settings."""

from __future__ import annotations

from memlint.memory.settings import Settings

_FIXES: dict[str, tuple[str, ...]] = {
    "logits": (
        "MEM201: compute the loss without full logits (use_liger_kernel=True, or TRL's chunks)",
        "MEM202, MEM203: the same for preference and policy losses",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
        "MEM101: truncate examples (max_length)",
    ),
    "logits_fp32": (
        "MEM201: compute the loss without full logits (use_liger_kernel=True, or TRL's chunks)",
        "MEM204: leave out the float32 copy in a loss of your own",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
    ),
    "log_softmax": (
        "MEM201: compute the loss without full logits (use_liger_kernel=True, or TRL's chunks)",
        "MEM202, MEM203: the same for preference and policy losses",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
        "MEM101: truncate examples (max_length)",
    ),
    "logits_gradient": (
        "MEM201: compute the loss without full logits (use_liger_kernel=True, or TRL's chunks)",
        "MEM307: drop the outputs before backward",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
    ),
    "eval_logits": (
        "MEM205: keep no logits of the evaluation set (preprocess_logits_for_metrics, "
        "prediction_loss_only=True or eval_accumulation_steps)",
        "MEM207: lower per_device_eval_batch_size",
        "MEM703: evaluate under torch.inference_mode()",
    ),
    "attention_scores": (
        'MEM304: attn_implementation="sdpa" or "flash_attention_2"',
        "MEM101: truncate examples (max_length)",
        "lower per_device_train_batch_size",
    ),
    "activation": (
        "MEM301: gradient_checkpointing=True",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
        "MEM103, MEM104: pack examples instead of padding them",
        "MEM305: activation_offloading=True for long contexts",
    ),
    "mlp_activation": (
        "MEM301: gradient_checkpointing=True",
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
        "use_liger_kernel=True: one kernel for the gated product",
    ),
    "weights": (
        "MEM401: load weights in bfloat16",
        "quantize the base model (load_in_4bit) and train adapters",
        "shard the model (FSDP, ZeRO-3), with low_cpu_mem_usage",
    ),
    "weight_gradient": (
        "MEM401: weights, and with them gradients, in bfloat16",
        "MEM504: an optimizer that uses each gradient up in backward",
        "train adapters (LoRA) instead of all weights",
        "shard gradients (ZeRO-2, FSDP)",
    ),
    "gathered_parameter": (
        "wrap layer by layer (fsdp_transformer_layer_cls_to_wrap, TRANSFORMER_BASED_WRAP)",
        "lower stage3_max_live_parameters and stage3_prefetch_bucket_size",
        "MEM602: do not gather all weights to generate",
    ),
    "gradient_bucket": (
        "lower reduce_bucket_size and allgather_bucket_size",
        "gradient_as_bucket_view=True (DDP)",
    ),
    "optimizer_state": (
        "optim='adamw_8bit' or 'paged_adamw_8bit'",
        "shard states (ZeRO, FSDP) or offload them",
        "train adapters (LoRA) instead of all weights",
    ),
    "optimizer_temporary": (
        "optim='adamw_torch_fused': no temporaries",
        "foreach=False where the script makes its optimizer",
    ),
    "kv_cache": (
        "MEM302: use_cache=False in training",
        "lower the number of generated tokens or the generation batch",
    ),
    "state_dict_copy": (
        "state dict to the CPU (offload_to_cpu=True, rank0_only=True)",
        "fsdp_state_dict_type: SHARDED_STATE_DICT",
    ),
    "dequantized_weight": (
        "lower per_device_train_batch_size: the copy of one weight has a fixed size",
        "MEM301: gradient_checkpointing=True",
    ),
    "merged_weight": (
        "merge on the CPU (device_map='cpu')",
        "free the trainer and its optimizer before merging",
    ),
    "reference_model": (
        "MEM405: no second reference model; switch adapters off, or precompute log-probabilities",
        "precompute_ref_log_probs=True",
    ),
    "other": (
        "lower per_device_train_batch_size, raise gradient_accumulation_steps",
        "memlint estimate SCRIPT: what stands in memory at the peak",
    ),
}


def fixes(kind: str, settings: Settings | None = None) -> tuple[str, ...]:
    """What helps, first what costs least; what the settings already have is left out."""
    listed = _FIXES[kind]
    if settings is None:
        return listed
    if settings.checkpointing not in (None, "none"):
        listed = tuple(fix for fix in listed if not fix.startswith("MEM301"))
    if settings.micro_batch == 1:
        listed = tuple(fix for fix in listed if "per_device_train_batch_size" not in fix)
    if settings.attention not in (None, "eager"):
        listed = tuple(fix for fix in listed if not fix.startswith("MEM304"))
    if settings.method in ("lora", "qlora"):
        listed = tuple(fix for fix in listed if not fix.startswith("train adapters"))
    return listed or _FIXES[kind][-1:]
