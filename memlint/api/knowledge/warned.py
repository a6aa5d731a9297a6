"""Deprecations that extraction cannot tie to a parameter: warned of elsewhere, or of a value."""

from __future__ import annotations

from memlint.api.knowledge.migrations import Warned

_AUTO = "transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained"

WARNED: tuple[Warned, ...] = (
    # TRL's configs define the old names anew, without a word; the base class still warns.
    *(
        Warned(
            "transformers.TrainingArguments",
            name,
            "transformers",
            "5.23",
            "",
            "training_args.py, __post_init__",
        )
        for name in ("gradient_checkpointing", "gradient_checkpointing_kwargs")
    ),
    # Until 5.0 the model class warned as well; since then only the configuration, which is not
    # loaded where one is given, and never sees "auto".
    Warned(_AUTO, "torch_dtype", "transformers", "4.56", "5.0", "modeling_utils.py"),
    Warned(
        _AUTO,
        "torch_dtype",
        "transformers",
        "5.0",
        "",
        "auto_factory.py and configuration_utils.py, from_pretrained",
        silent_values=("auto",),
        silent_beside=("config",),
    ),
    Warned("trl.SFTConfig", "use_liger_kernel", "trl", "1.15", "", "sft_trainer.py, __init__"),
    Warned("trl.DPOConfig", "use_liger_kernel", "trl", "1.15", "", "dpo_trainer.py, __init__"),
    Warned("trl.KTOConfig", "use_liger_kernel", "trl", "1.15", "", "kto_trainer.py, __init__"),
    Warned("trl.GRPOConfig", "use_liger_kernel", "trl", "1.15", "", "grpo_trainer.py, __init__"),
    Warned("trl.RLOOConfig", "use_liger_kernel", "trl", "1.15", "", "rloo_trainer.py, __init__"),
    Warned(
        "trl.SFTConfig", "label_smoothing_factor", "trl", "1.15", "", "sft_trainer.py, __init__"
    ),
    Warned("trl.SFTConfig", "loss_type", "trl", "1.15", "", "sft_config.py", ("chunked_nll",)),
    Warned("trl.SFTConfig", "truncation_mode", "trl", "1.1", "", "sft_config.py", ("keep_end",)),
    Warned("trl.DPOConfig", "truncation_mode", "trl", "1.1", "", "dpo_config.py", ("keep_end",)),
    Warned(
        "trl.SFTConfig", "packing_strategy", "trl", "1.0", "", "sft_config.py", ("bfd-requeue",)
    ),
)
