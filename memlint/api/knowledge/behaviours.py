"""What the libraries do in which versions, where no signature shows it.

Each line: what it is about, the package whose version decides, and the answers by the minor release
from which on they hold (the empty string: from the first).
"""

from collections.abc import Mapping

BEHAVIOURS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    # Where weights have to be for an optimizer of torch that steps them in one kernel. Source:
    # torch/optim/adamw.py, fused=True; torch/utils/_foreach_utils.py.
    "fused-step": ("torch", {"": "gpu", "2.4": "anywhere"}),
    # In which precision ``from_pretrained`` loads weights when no dtype is given. Source:
    # modeling_utils.py, torch_dtype=None; modeling_utils.py, dtype='auto'.
    "load-dtype": ("transformers", {"": "float32", "5.0": "auto"}),
    # Which FSDP an option of the trainer asks for. Source: training_args.py, _process_fsdp_args.
    "fsdp-version": ("transformers", {"": "1", "5.10": "2"}),
    # In which precision a TRL trainer loads a model that is given by name. Source: from_pretrained
    # without torch_dtype; trl/trainer/utils.py, create_model_from_path.
    "string-model-dtype": ("trl", {"": "float32", "0.26": "auto", "0.27": "float32"}),
    # In which precision it loads the reference of a policy that it is given loaded. Source:
    # trl/trainer/utils.py; dpo_trainer.py, __init__.
    "reference-dtype": ("trl", {"": "float32", "1.16": "policy"}),
    # DPO copied its policy before. Source: trl/trainer/dpo_trainer.py, create_reference_model.
    "reference-of-dpo": ("trl", {"": "policy", "0.29": "float32", "1.16": "policy"}),
    # Whether its trainers leave the embeddings of a prepared k-bit model in float32. Source:
    # trl/trainer/utils.py, casting to bf16; sft_trainer.py, __init__: adapters alone.
    "kbit-tables": ("trl", {"": "cast", "1.8": "float32"}),
    # What SFTTrainer and the preference and policy trainers compute their loss from. Source:
    # sft_trainer.py, super().compute_loss; trl/trainer/utils.py, add_fused_lm_head.
    "sft-loss": ("trl", {"": "full logits", "1.15": "chunked"}),
    # Source: grpo_trainer.py, selective_log_softmax; trl/kernels/chunked_logprob.py.
    "policy-loss": ("trl", {"": "full logits", "1.15": "chunked"}),
    # Source: dpo_trainer.py, concatenated_forward; trl/kernels/chunked_logprob.py.
    "preference-loss": ("trl", {"": "full logits", "1.15": "chunked"}),
    # Which option gives DPO, GRPO and KTO Liger's loss without logits; use_liger_loss has a field.
    # Source: trl/trainer, use_liger_loss; trl/trainer, use_liger_kernel; trl/trainer: layer
    # kernels, own losses.
    "liger-rl-loss": ("trl", {"": "use_liger_loss", "0.25": "use_liger_kernel", "1.15": ""}),
    # What SFTTrainer gives a ``formatting_func``: a batch of rows, or one row after the other.
    # Source: sft_trainer.py, batched=True; sft_trainer.py, _prepare_dataset.
    "sft-formatting": ("trl", {"": "batch", "0.21": "row"}),
    # Whether activation checkpointing is reentrant when nothing is said. Source: modeling_utils.py.
    "checkpointing": ("transformers", {"": "reentrant", "5.0": "non-reentrant"}),
    # What limits the positions whose logits a causal model computes, and which models take it.
    # Source: modeling_llama.py, forward.
    "logits-to-keep": (
        "transformers",
        {"": "", "4.45": "num_logits_to_keep", "4.49": "logits_to_keep"},
    ),
    # Source: modeling_gpt2.py, forward; modeling_opt.py, forward.
    "logits-to-keep-models": ("transformers", {"": "some", "4.53": "decoders", "5.0": "all"}),
    # Whether flex_attention takes Gemma 2, whose soft-capped scores sdpa cannot. Source:
    # modeling_gemma2.py; _supports_flex_attn.
    "gemma-2-flex": ("transformers", {"": "missing", "4.48": "supported"}),
    # Which attention the library asks for when Gemma 2 or 3 is trained. Source: modeling_gemma3.py,
    # forward.
    "gemma-training": ("transformers", {"": "eager", "4.57": "any"}),
    # What trainers refuse of their arguments, each read
    # release by release where it raises. Source: sft_trainer.py, __init__; sft_trainer.py,
    # BaseTunerLayer.
    "head-adapter": ("trl", {"": "accepted", "1.15": "refused"}),
    # Source: sft_trainer.py, __init__.
    "padding-free-collator": ("trl", {"": "accepted", "0.16": "refused"}),
    # Source: sft_trainer.py, DataCollatorForLanguageModeling; _reject_skip_prepare_without_labels.
    "masks-without-preparation": ("trl", {"": "read", "1.7": "refused"}),
    # Packing strategies whose rows come without padding, which a collator of the trainer's makes.
    # Source: sft_trainer.py, __init__; sft_trainer.py, padding_free; sft_trainer.py.
    "padding-free-packing": ("trl", {"": "", "0.19": "ffd", "0.20": "bfd", "1.0": "bfd bfd_split"}),
    # What trainers that read ``model_init_kwargs``, all but SFTTrainer's, do with plain arguments.
    # Source: dpo_trainer.py, __init__, and so for the others.
    "plain-arguments": ("trl", {"": "some take them", "0.24": "refused"}),
    # Source: grpo_trainer.py, __init__.
    "reward-weights": ("trl", {"": "accepted", "0.15": "one each"}),
    # Source: trainer.py; trainer.py, __init__.
    "evaluation-without-data": ("transformers", {"": "skipped", "4.46": "refused"}),
    # Which kind of activation checkpointing a TRL trainer turns on when nothing is said. Source:
    # sft_trainer.py; sft_trainer.py, setdefault.
    "trl-checkpointing": ("trl", {"": "as transformers", "0.27": "non-reentrant"}),
    # Whether the runtime's trainers, which build on TRL's fused head, can take the place of TRL's.
    # Source: trl/trainer/utils.py; memlint_runtime/trl/trainer.py.
    "shared-prompt-trainers": ("trl", {"": "too old", "1.16": "drop-in"}),
    # Whether the runtime's deferred logits are tested with what TRL's losses do to them. Source:
    # memlint_runtime/losses/trl_losses.py.
    "deferred-logits": ("trl", {"": "untested", "1.0": "tested"}),
    # Whether the runtime's limits of prompts are tested with TRL's trainers. Source:
    # memlint_runtime/prompt_limits.py.
    "prompt-limits": ("trl", {"": "untested", "1.16": "tested"}),
    # Which attention keeps documents apart that only their positions tell from each other. Source:
    # modeling_flash_attention_utils.py; transformers/masking_utils.py.
    "packed-positions": ("transformers", {"": "flash", "4.53": "all"}),
    # Whether ``use_liger_kernel`` reaches a model in adapters. Source: trainer.py, get_base_model.
    "kernels-under-adapters": ("transformers", {"": "left out", "4.49": "applied"}),
    # Whether the runtime's adapters for models and trainers are tested with it. Source: the runtime
    # extra's lower bound.
    "runtime": ("transformers", {"": "untested", "5.17": "tested"}),
}
