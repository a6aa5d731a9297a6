"""Deprecations that extraction cannot tie to a parameter: warned of elsewhere, or of a value."""

from memlint.api.knowledge.migrations import Warned, rows

_AUTO = "transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained"
# TRL's configs define the old names of checkpointing anew, without a word; the base class warns.
# Until 5.0 the model class warned of ``torch_dtype`` as well; since then only the configuration,
# which is not loaded where one is given, and never sees "auto".
_ROWS = f"""
transformers.TrainingArguments
  gradient_checkpointing gradient_checkpointing_kwargs since 5.23  # __post_init__
{_AUTO}
  torch_dtype since 4.56 until 5.0  # modeling_utils.py
trl.SFTConfig trl.DPOConfig trl.KTOConfig trl.GRPOConfig trl.RLOOConfig
  use_liger_kernel since 1.15  # the trainers' __init__
trl.SFTConfig
  label_smoothing_factor since 1.15  # sft_trainer.py, __init__
  loss_type = "chunked_nll" since 1.15  # sft_config.py
  packing_strategy = "bfd-requeue" since 1.0  # sft_config.py
trl.SFTConfig trl.DPOConfig
  truncation_mode = "keep_end" since 1.1  # sft_config.py, dpo_config.py
"""

WARNED: tuple[Warned, ...] = (
    *(
        Warned(owner, name, values, since, until)
        for owner, name, values, since, until, _ in rows(_ROWS)
    ),
    Warned(_AUTO, "torch_dtype", (), "5.0", "", ("auto",), ("config",)),
)
