"""Combinations of options that a library refuses at run time, in which versions.

Each line was read in the library's source, release by release, where it raises. ``source`` of
every line is the file that raises.
"""

from __future__ import annotations

from memlint.api.refusals import Among, Given, Off, Outside, Refusal

_ARGS = "transformers.TrainingArguments"
_SFT = "trl.SFTConfig"
_DPO = "trl.DPOConfig"
_KTO = "trl.KTOConfig"
_ONLINE = ("trl.GRPOConfig", "trl.RLOOConfig")
_SET = Given()
_ON = Among((True,))
_OFF = Among((False,))
_NONE = Among((None,))
_ZERO = Among((0.0, 0))

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        _ARGS,
        (("fp16", _ON), ("bf16", _ON)),
        "fp16 and bf16 exclude each other",
        "training_args.py",
        drop="fp16",
    ),
    Refusal(
        _ARGS,
        (("fp16_full_eval", _ON), ("bf16_full_eval", _ON)),
        "fp16_full_eval and bf16_full_eval exclude each other",
        "training_args.py",
        drop="fp16_full_eval",
    ),
    Refusal(
        _ARGS,
        (("dataloader_prefetch_factor", _SET), ("dataloader_num_workers", Among((0,)))),
        "a prefetch factor needs loader workers",
        "training_args.py",
        drop="dataloader_prefetch_factor",
        safe=True,
    ),
    *(
        Refusal(
            _ARGS,
            (("lr_scheduler_type", Among((scheduler,))), ("eval_strategy", Among(("no",)))),
            f"{scheduler} needs an evaluation to follow",
            "training_args.py",
            since=since,
            advice='Set `eval_strategy` to "steps" or "epoch"',
        )
        for scheduler, since in (("reduce_lr_on_plateau", ""), ("greedy", "5.4"))
    ),
    Refusal(
        _ARGS,
        (
            ("save_strategy", Among(("best",))),
            ("metric_for_best_model", _NONE),
            ("load_best_model_at_end", _OFF),
            ("lr_scheduler_type", Outside(("reduce_lr_on_plateau", "greedy"))),
        ),
        "saving the best model needs the metric by which it is the best",
        "trainer.py, __init__",
        since="4.47",
        advice='Set `metric_for_best_model`, such as "loss"',
    ),
    Refusal(
        _ARGS,
        (
            ("optim", Among(("galore_adamw", "galore_adamw_8bit", "galore_adafactor"))),
            ("optim_target_modules", _NONE),
        ),
        "GaLore needs to know the modules whose gradients it projects",
        "trainer.py, get_optimizer_cls_and_kwargs",
        advice='Set `optim_target_modules`, such as "all-linear"',
    ),
    Refusal(
        _SFT,
        (("packing", _ON), ("max_length", _NONE)),
        "packing needs a length to pack to",
        "sft_trainer.py",
        since="0.16",
        advice="Set `max_length` to the length of a packed row",
    ),
    Refusal(
        _SFT,
        (("packing", _ON), ("max_seq_length", _NONE)),
        "packing needs a length to pack to",
        "sft_trainer.py",
        since="0.15",
        until="0.16",
        advice="Set `max_seq_length` to the length of a packed row",
    ),
    Refusal(
        _SFT,
        (("padding_free", _ON), ("packing", _OFF), ("max_length", _SET)),
        "padding-free rows that are not packed are not cut to max_length",
        "sft_trainer.py, __init__",
        since="1.0",
        change=("packing", "True"),
    ),
    Refusal(
        _SFT,
        (("loss_type", Among(("chunked_nll",))), ("use_liger_kernel", _ON)),
        "two losses without logits",
        "sft_trainer.py, __init__",
        since="1.4",
        until="1.15",
        drop="use_liger_kernel",
        safe=True,
    ),
    Refusal(
        _DPO,
        (("loss_type", Among(("exo_pair", ["exo_pair"]))), ("label_smoothing", _ZERO)),
        "the loss exo_pair needs label smoothing",
        "dpo_trainer.py, __init__",
        since="0.29",
        advice="Set `label_smoothing`, such as 1e-3",
    ),
    *(
        Refusal(
            owner,
            (("sync_ref_model", _ON), ("precompute_ref_log_probs", _ON)),
            "a reference that changes cannot be computed beforehand",
            f"{owner[4:7].lower()}_trainer.py, __init__",
            since=since,
            advice="Remove one of the two",
        )
        for owner, since in ((_DPO, "0.9"), (_KTO, "1.8"))
    ),
    Refusal(
        _KTO,
        (("per_device_train_batch_size", Among((1,))), ("loss_type", Among(("kto",)))),
        "the KL term needs at least two rows in a batch",
        "kto_trainer.py, __init__",
        since="0.12",
        change=("per_device_train_batch_size", "2"),
    ),
    *(
        Refusal(
            owner,
            (("generation_batch_size", _SET), ("steps_per_generation", _SET)),
            "generation_batch_size and steps_per_generation say the same thing twice",
            f"{owner[4:8].lower()}_config.py, __post_init__",
            since="0.18",
            advice="Remove one of the two",
        )
        for owner in _ONLINE
    ),
    *(
        Refusal(
            owner,
            (("num_generations", Among((0, 1))),),
            "an advantage needs at least two generations",
            f"{owner[4:8].lower()}_config.py, __post_init__",
            since=since,
            advice="Set `num_generations` to 2 or more",
        )
        for owner, since in zip(_ONLINE, ("0.17", "0.22"), strict=True)
    ),
    *(
        Refusal(
            owner,
            (("sync_ref_model", _ON), ("beta", _ZERO)),
            "with beta=0 there is no reference model to synchronize",
            f"{owner[4:8].lower()}_trainer.py, __init__",
            since="0.28",
            drop="sync_ref_model",
            safe=True,
        )
        for owner in _ONLINE
    ),
    *(
        Refusal(
            owner,
            (("auto_find_batch_size", _ON),),
            "a smaller batch would no longer hold whole groups of generations",
            f"{owner[4:8].lower()}_config.py, __post_init__",
            since="1.9",
            drop="auto_find_batch_size",
            safe=True,
        )
        for owner in _ONLINE
    ),
    Refusal(
        "trl.GRPOConfig",
        (("delta", _SET), ("use_liger_kernel", _ON)),
        "Liger's loss has no upper clipping bound",
        "grpo_config.py, __post_init__",
        since="0.25",
        until="1.4",
        advice="Remove one of the two",
    ),
    Refusal(
        "trl.GRPOConfig",
        (("delta", _SET), ("use_liger_loss", _ON)),
        "Liger's loss has no upper clipping bound",
        "grpo_config.py, __post_init__",
        since="0.18",
        until="0.25",
        advice="Remove one of the two",
    ),
    # What trainers refuse of their own arguments; a finding stands at the first of them.
    Refusal(
        "trl",
        (("ref_model", Among(("the model",))),),
        "`ref_model` is the model itself",
        "dpo_trainer.py, __init__",
        since="0.11",
        drop="ref_model",
        advice="Leave `ref_model` out",
    ),
    Refusal(
        "trl",
        (("peft_config", _SET), ("model.peft", _ON)),
        "a `PeftModel` and a `peft_config`",
        "sft_trainer.py, __init__",
        since="0.27",
        drop="peft_config",
        advice="Remove `peft_config`: the model has its adapter",
        safe=True,
    ),
    Refusal(
        "trl.DPOTrainer",
        (
            ("ref_model", _SET),
            ("peft_config", _SET),
            ("force_use_ref_model", Off()),
            ("args.force_use_ref_model", Off()),
        ),
        "a `ref_model` and a `peft_config`; the reference is the model without its adapter",
        "dpo_trainer.py, __init__",
        until="0.29",
        drop="ref_model",
        advice="Remove `ref_model`",
    ),
    Refusal(
        "trl.SFTTrainer",
        (("formatting_func", _SET), ("args.completion_only_loss", _ON)),
        "a formatting function makes one text, in which no completion is known",
        "sft_trainer.py, __init__",
        since="0.18",
        advice="Give the data as prompts and completions, without `formatting_func`",
    ),
    *(
        Refusal(
            owner,
            (("args.sync_ref_model", _ON), ("peft", _ON)),
            "with adapters there is no reference model to synchronize",
            "dpo_trainer.py, __init__",
            since="0.29",
            advice="Remove `sync_ref_model`",
        )
        for owner in ("trl.DPOTrainer", "trl.KTOTrainer", "trl.GRPOTrainer", "trl.RLOOTrainer")
    ),
)
