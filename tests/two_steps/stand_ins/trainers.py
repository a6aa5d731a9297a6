"""Trainers that take two steps, on the CPU, save nothing and report to nobody."""

from __future__ import annotations

import re
import tempfile
from typing import Any


def shorten_trainers() -> None:
    import transformers

    arguments = transformers.TrainingArguments
    real_post_init = arguments.__post_init__
    output = tempfile.mkdtemp(prefix="two-steps-")

    def post_init(self: Any) -> None:
        small: dict[str, Any] = {
            "output_dir": output, "max_steps": 2, "use_cpu": True, "bf16": False, "fp16": False,
            "tf32": None, "report_to": "none", "push_to_hub": False, "save_strategy": "no",
            "load_best_model_at_end": False, "logging_steps": 1, "logging_strategy": "steps",
            "logging_first_step": True, "deepspeed": None, "dataloader_num_workers": 0,
            "dataloader_prefetch_factor": None, "dataloader_persistent_workers": False,
            "torch_compile": False, "neftune_noise_alpha": None, "use_vllm": False,
            "hub_model_id": None, "fsdp": None, "seed": 42, "dataset_num_proc": None,
            "bf16_full_eval": False, "fp16_full_eval": False, "activation_offloading": False,
            "use_liger_kernel": False,
            "logging_nan_inf_filter": False, "warmup_ratio": None,
        }  # fmt: skip
        for name, value in small.items():
            if hasattr(self, name):
                setattr(self, name, value)
        if re.search(r"8bit|4bit|paged|lion|fused|galore|apollo", str(self.optim)):
            self.optim = "adamw_torch"
        for name, most in (
            ("per_device_train_batch_size", 4), ("per_device_eval_batch_size", 4),
            ("gradient_accumulation_steps", 2), ("max_completion_length", 8), ("warmup_steps", 1),
        ):  # fmt: skip
            value = getattr(self, name, None)
            if isinstance(value, int | float) and value > most:
                setattr(self, name, most)
        if getattr(self, "num_generations", None):
            self.num_generations = self.per_device_train_batch_size = 2
            self.generation_batch_size = self.steps_per_generation = None
        if hasattr(self, "eval_steps") and self.eval_steps:
            self.eval_steps = 2
        real_post_init(self)

    arguments.__post_init__ = post_init
    for name in ("push_to_hub", "create_model_card"):
        setattr(transformers.Trainer, name, lambda self, *a, **k: None)
