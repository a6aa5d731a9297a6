"""Combinations of options that a library refuses at run time, in which versions.

Each row was read in the library's source, release by release, where it raises; the comment names
the file. A line at the margin names the classes, each row below it the options that are refused
together: ``name``, given at all; ``name off``; ``name = a, b`` and ``name not a, b``, one of these
values or none. Then why, which option to ``drop`` or to set (``name = source``), which changes what
is trained unless it says ``safely``, and what to do where neither is certain.
"""

from ast import literal_eval
from collections.abc import Iterator

from memlint.api.knowledge.migrations import whole_lines
from memlint.api.refusals import Among, Condition, Given, Off, Outside, Refusal

_ROWS = """
transformers.TrainingArguments
  fp16 = True & bf16 = True | fp16 and bf16 exclude each other | drop fp16  # training_args.py
  fp16_full_eval = True & bf16_full_eval = True | fp16_full_eval and bf16_full_eval exclude each
      other | drop fp16_full_eval  # training_args.py
  dataloader_prefetch_factor & dataloader_num_workers = 0 | a prefetch factor needs loader workers
      | drop dataloader_prefetch_factor safely  # training_args.py
  lr_scheduler_type = "reduce_lr_on_plateau" & eval_strategy = "no" | reduce_lr_on_plateau needs an
      evaluation to follow | Set `eval_strategy` to "steps" or "epoch"  # training_args.py
  lr_scheduler_type = "greedy" & eval_strategy = "no" since 5.4 | greedy needs an evaluation to
      follow | Set `eval_strategy` to "steps" or "epoch"  # training_args.py
  save_strategy = "best" & metric_for_best_model = None & load_best_model_at_end = False &
      lr_scheduler_type not "reduce_lr_on_plateau", "greedy" since 4.47 | saving the best model
      needs the metric by which it is the best | Set `metric_for_best_model`, such as "loss"
      # trainer.py, __init__
  optim = "galore_adamw", "galore_adamw_8bit", "galore_adafactor" & optim_target_modules = None |
      GaLore needs to know the modules whose gradients it projects | Set `optim_target_modules`,
      such as "all-linear"  # trainer.py, get_optimizer_cls_and_kwargs
trl.SFTConfig
  packing = True & max_length = None since 0.16 | packing needs a length to pack to | Set
      `max_length` to the length of a packed row  # sft_trainer.py
  packing = True & max_seq_length = None since 0.15 until 0.16 | packing needs a length to pack to
      | Set `max_seq_length` to the length of a packed row  # sft_trainer.py
  padding_free = True & packing = False & max_length since 1.0 | padding-free rows that are not
      packed are not cut to max_length | packing = True  # sft_trainer.py, __init__
  loss_type = "chunked_nll" & use_liger_kernel = True since 1.4 until 1.15 | two losses without
      logits | drop use_liger_kernel safely  # sft_trainer.py, __init__
trl.DPOConfig
  loss_type = "exo_pair", ["exo_pair"] & label_smoothing = 0.0, 0 since 0.29 | the loss exo_pair
      needs label smoothing | Set `label_smoothing`, such as 1e-3  # dpo_trainer.py, __init__
  sync_ref_model = True & precompute_ref_log_probs = True since 0.9 | a reference that changes
      cannot be computed beforehand | Remove one of the two  # dpo_trainer.py, __init__
trl.KTOConfig
  sync_ref_model = True & precompute_ref_log_probs = True since 1.8 | a reference that changes
      cannot be computed beforehand | Remove one of the two  # kto_trainer.py, __init__
  per_device_train_batch_size = 1 & loss_type = "kto" since 0.12 | the KL term needs at least two
      rows in a batch | per_device_train_batch_size = 2  # kto_trainer.py, __init__
trl.GRPOConfig trl.RLOOConfig
  generation_batch_size & steps_per_generation since 0.18 | generation_batch_size and
      steps_per_generation say the same thing twice | Remove one of the two
      # grpo_config.py, __post_init__; rloo_config.py, __post_init__
  sync_ref_model = True & beta = 0.0, 0 since 0.28 | with beta=0 there is no reference model to
      synchronize | drop sync_ref_model safely
      # grpo_trainer.py, __init__; rloo_trainer.py, __init__
  auto_find_batch_size = True since 1.9 | a smaller batch would no longer hold whole groups of
      generations | drop auto_find_batch_size safely
      # grpo_config.py, __post_init__; rloo_config.py, __post_init__
trl.GRPOConfig
  num_generations = 0, 1 since 0.17 | an advantage needs at least two generations | Set
      `num_generations` to 2 or more  # grpo_config.py, __post_init__
  delta & use_liger_kernel = True since 0.25 until 1.4 | Liger's loss has no upper clipping bound |
      Remove one of the two  # grpo_config.py, __post_init__
  delta & use_liger_loss = True since 0.18 until 0.25 | Liger's loss has no upper clipping bound |
      Remove one of the two  # grpo_config.py, __post_init__
trl.RLOOConfig
  num_generations = 0, 1 since 0.22 | an advantage needs at least two generations | Set
      `num_generations` to 2 or more  # rloo_config.py, __post_init__
trl
  ref_model = "the model" since 0.11 | `ref_model` is the model itself | drop ref_model | Leave
      `ref_model` out  # dpo_trainer.py, __init__
  peft_config & model.peft = True since 0.27 | a `PeftModel` and a `peft_config` | drop peft_config
      safely | Remove `peft_config`: the model has its adapter  # sft_trainer.py, __init__
trl.DPOTrainer
  ref_model & peft_config & force_use_ref_model off & args.force_use_ref_model off until 0.29 | a
      `ref_model` and a `peft_config`; the reference is the model without its adapter | drop
      ref_model | Remove `ref_model`  # dpo_trainer.py, __init__
  model.t5 = True since 0.29 | it gives an encoder-decoder no decoder inputs | Train a decoder model
      # dpo_trainer.py, compute_loss; modeling_t5.py, forward
trl.SFTTrainer
  formatting_func & args.completion_only_loss = True since 0.18 | a formatting function makes one
      text, in which no completion is known | Give the data as prompts and completions, without
      `formatting_func`  # sft_trainer.py, __init__
trl.DPOTrainer trl.KTOTrainer trl.GRPOTrainer trl.RLOOTrainer
  args.sync_ref_model = True & peft = True since 0.29 | with adapters there is no reference model
      to synchronize | Remove `sync_ref_model`  # dpo_trainer.py, __init__
"""


def _refusals() -> Iterator[Refusal]:
    owners: list[str] = []
    for line in whole_lines(_ROWS):
        if line[0] != " ":
            owners = line.split()
            continue
        what, message, *rest = line.strip().split(" | ")
        what, _, until = what.partition(" until ")
        what, _, since = what.partition(" since ")
        options = tuple(map(_condition, what.split(" & ")))
        drop, change, advice, safe = "", ("", ""), "", False
        for cell in rest:
            name, _, source = cell.partition(" = ")
            if cell.startswith("drop "):
                drop, safe = cell.split()[1], cell.endswith(" safely")
            elif source and " " not in name:
                change = (name, source)
            else:
                advice = cell
        for owner in owners:
            yield Refusal(owner, options, message, since, until, drop, change, advice, safe)


def _condition(text: str) -> tuple[str, Condition]:
    name, _, rest = text.partition(" ")
    sign, _, values = rest.partition(" ")
    if not sign:
        return name, Given()
    if sign == "off":
        return name, Off()
    among = Among(literal_eval(f"({values},)"))
    return name, among if sign == "=" else Outside(among.values)


REFUSALS = tuple(_refusals())
