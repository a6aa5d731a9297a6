"""What the libraries do in which versions, where no signature shows it.

Each line: what it is about, the package whose version decides, from which minor release on it
holds (the empty string: from the first), the answer, and where that was read.
"""

from __future__ import annotations

from memlint.source.record import NamedTuple


class Behaviour(NamedTuple):
    """``topic`` is ``answer`` from ``since`` on, until a later line of the same topic."""

    topic: str
    package: str
    since: str
    answer: str
    origin: str


BEHAVIOURS: tuple[Behaviour, ...] = (
    # Where weights have to be for an optimizer of torch that steps them in one kernel.
    Behaviour("fused-step", "torch", "", "gpu", "torch/optim/adamw.py, fused=True"),
    Behaviour("fused-step", "torch", "2.4", "anywhere", "torch/utils/_foreach_utils.py"),
    # In which precision ``from_pretrained`` loads weights when no dtype is given.
    Behaviour("load-dtype", "transformers", "", "float32", "modeling_utils.py, torch_dtype=None"),
    Behaviour("load-dtype", "transformers", "5.0", "auto", "modeling_utils.py, dtype='auto'"),
    # In which precision a TRL trainer loads a model that is given by name.
    Behaviour("fsdp-version", "transformers", "", "1", "training_args.py, _process_fsdp_args"),
    Behaviour("fsdp-version", "transformers", "5.10", "2", "training_args.py"),
    Behaviour("string-model-dtype", "trl", "", "float32", "from_pretrained without torch_dtype"),
    Behaviour("string-model-dtype", "trl", "0.26", "auto", "trl/trainer/utils.py"),
    Behaviour(
        "string-model-dtype",
        "trl",
        "0.27",
        "float32",
        "trl/trainer/utils.py, create_model_from_path",
    ),
    # In which precision it loads the reference of a policy that it is given loaded.
    Behaviour("reference-dtype", "trl", "", "float32", "trl/trainer/utils.py"),
    Behaviour("reference-dtype", "trl", "1.16", "policy", "dpo_trainer.py, __init__"),
    # Whether its trainers leave the embeddings of a prepared k-bit model in float32.
    Behaviour("kbit-tables", "trl", "", "cast", "trl/trainer/utils.py, casting to bf16"),
    Behaviour("kbit-tables", "trl", "1.8", "float32", "sft_trainer.py, __init__: adapters alone"),
    # What SFTTrainer and the preference and policy trainers compute their loss from.
    Behaviour("sft-loss", "trl", "", "full logits", "sft_trainer.py, super().compute_loss"),
    Behaviour("sft-loss", "trl", "1.15", "chunked", "trl/trainer/utils.py, add_fused_lm_head"),
    Behaviour("policy-loss", "trl", "", "full logits", "grpo_trainer.py, selective_log_softmax"),
    Behaviour("policy-loss", "trl", "1.15", "chunked", "trl/kernels/chunked_logprob.py"),
    Behaviour("preference-loss", "trl", "", "full logits", "dpo_trainer.py, concatenated_forward"),
    Behaviour("preference-loss", "trl", "1.15", "chunked", "trl/kernels/chunked_logprob.py"),
    # Which option gives DPO, GRPO and KTO Liger's loss without logits; use_liger_loss has a field.
    Behaviour("liger-rl-loss", "trl", "", "use_liger_loss", "trl/trainer, use_liger_loss"),
    Behaviour("liger-rl-loss", "trl", "0.25", "use_liger_kernel", "trl/trainer, use_liger_kernel"),
    Behaviour("liger-rl-loss", "trl", "1.15", "", "trl/trainer: layer kernels, own losses"),
    # What SFTTrainer gives a ``formatting_func``: a batch of rows, or one row after the other.
    Behaviour("sft-formatting", "trl", "", "batch", "sft_trainer.py, batched=True"),
    Behaviour("sft-formatting", "trl", "0.21", "row", "sft_trainer.py, _prepare_dataset"),
    # Whether activation checkpointing is reentrant when nothing is said.
    Behaviour("checkpointing", "transformers", "", "reentrant", "modeling_utils.py"),
    Behaviour("checkpointing", "transformers", "5.0", "non-reentrant", "modeling_utils.py"),
    # What limits the positions whose logits a causal model computes, and which models take it.
    Behaviour("logits-to-keep", "transformers", "", "", "modeling_llama.py, forward"),
    Behaviour(
        "logits-to-keep", "transformers", "4.45", "num_logits_to_keep", "modeling_llama.py, forward"
    ),
    Behaviour(
        "logits-to-keep", "transformers", "4.49", "logits_to_keep", "modeling_llama.py, forward"
    ),
    Behaviour("logits-to-keep-models", "transformers", "", "some", "modeling_gpt2.py, forward"),
    Behaviour(
        "logits-to-keep-models", "transformers", "4.53", "decoders", "modeling_gpt2.py, forward"
    ),
    Behaviour("logits-to-keep-models", "transformers", "5.0", "all", "modeling_opt.py, forward"),
    # Whether flex_attention takes Gemma 2, whose soft-capped scores sdpa cannot.
    Behaviour("gemma-2-flex", "transformers", "", "missing", "modeling_gemma2.py"),
    Behaviour("gemma-2-flex", "transformers", "4.48", "supported", "_supports_flex_attn"),
    # Which attention the library asks for when Gemma 2 or 3 is trained.
    Behaviour("gemma-training", "transformers", "", "eager", "modeling_gemma3.py, forward"),
    Behaviour("gemma-training", "transformers", "4.57", "any", "modeling_gemma3.py, forward"),
    # A PeftModel together with a peft_config.
    # What trainers refuse of their arguments, each read release by release where it raises.
    Behaviour("head-adapter", "trl", "", "accepted", "sft_trainer.py, __init__"),
    Behaviour("head-adapter", "trl", "1.15", "refused", "sft_trainer.py, BaseTunerLayer"),
    Behaviour("padding-free-collator", "trl", "", "accepted", "sft_trainer.py, __init__"),
    Behaviour("padding-free-collator", "trl", "0.16", "refused", "sft_trainer.py, __init__"),
    # Packing strategies whose rows come without padding, which a collator of the trainer's makes.
    Behaviour("padding-free-packing", "trl", "", "", "sft_trainer.py, __init__"),
    Behaviour("padding-free-packing", "trl", "0.19", "ffd", "sft_trainer.py, padding_free"),
    Behaviour("padding-free-packing", "trl", "0.20", "bfd", "sft_trainer.py, padding_free"),
    Behaviour("padding-free-packing", "trl", "1.0", "bfd bfd_split", "sft_trainer.py"),
    Behaviour("reward-weights", "trl", "", "accepted", "grpo_trainer.py, __init__"),
    Behaviour("reward-weights", "trl", "0.15", "one each", "grpo_trainer.py, __init__"),
    Behaviour("evaluation-without-data", "transformers", "", "skipped", "trainer.py"),
    Behaviour("evaluation-without-data", "transformers", "4.46", "refused", "trainer.py, __init__"),
    # What a trainer does whose layers FSDP checkpoints already.
    Behaviour("double-checkpointing", "transformers", "", "refused", "trainer.py, __init__"),
    # Which kind of activation checkpointing a TRL trainer turns on when nothing is said.
    Behaviour("trl-checkpointing", "trl", "", "as transformers", "sft_trainer.py"),
    Behaviour("trl-checkpointing", "trl", "0.27", "non-reentrant", "sft_trainer.py, setdefault"),
    # Whether the runtime's trainers, which build on TRL's fused head, can take the place of TRL's.
    Behaviour("shared-prompt-trainers", "trl", "", "too old", "trl/trainer/utils.py"),
    Behaviour("shared-prompt-trainers", "trl", "1.16", "drop-in", "memlint_runtime/trl/trainer.py"),
    # Whether the runtime's deferred logits are tested with what TRL's losses do to them.
    Behaviour("deferred-logits", "trl", "", "untested", "memlint_runtime/losses/trl_losses.py"),
    Behaviour("deferred-logits", "trl", "1.0", "tested", "memlint_runtime/losses/trl_losses.py"),
    # Whether the runtime's limits of prompts are tested with TRL's trainers.
    Behaviour("prompt-limits", "trl", "", "untested", "memlint_runtime/prompt_limits.py"),
    Behaviour("prompt-limits", "trl", "1.16", "tested", "memlint_runtime/prompt_limits.py"),
    # Which attention keeps documents apart that only their positions tell from each other.
    Behaviour("packed-positions", "transformers", "", "flash", "modeling_flash_attention_utils.py"),
    Behaviour("packed-positions", "transformers", "4.53", "all", "transformers/masking_utils.py"),
    # Whether the runtime's adapters for models and trainers are tested with it.
    Behaviour("runtime", "transformers", "", "untested", "the runtime extra's lower bound"),
    Behaviour("runtime", "transformers", "5.17", "tested", "the runtime extra's lower bound"),
)
