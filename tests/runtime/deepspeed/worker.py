"""Training runs for `test_zero`: one plain process, or one of two under DeepSpeed's ZeRO.

Every run sees the same rows in the same order: a step's rows are one batch, or one half of it in
each process. Completions come from a function of prompt and place in the group, so that they do not
depend on how many processes draw them. Plain SGD: Adam would blow the last bits of small gradients
up.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState, GradientState
from datasets import Dataset
from memlint_runtime import fuse, fuse_causal_lm_loss, train_without_padding
from memlint_runtime import trl as ours
from memlint_runtime.shared_prompt import Sharing, kept
from memlint_runtime.trainer_adapters import offload_trainer_activations
from peft import LoraConfig
from transformers import (
    AutoModelForCausalLM,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    set_seed,
)
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RLOOConfig,
    RLOOTrainer,
    SFTConfig,
    SFTTrainer,
)

from tests.runtime.shared_prompt.training import preferences, prompts, reward, tokenizer

PROCESSES = int(os.environ.get("WORLD_SIZE", "1"))
STEPS, ROWS = 6, 8


class Runs:
    """The runs of one process; plain ones are transformers' and TRL's own."""

    def __init__(self, folder: Path, stage: int) -> None:
        self.folder, self.stage = folder, stage
        self.model = str(folder / "model")

    @property
    def plain(self) -> bool:
        return self.stage == 0

    def settings(self, config: type, **options: Any) -> Any:
        chosen: dict[str, Any] = {
            "output_dir": str(self.folder / "out"), "max_steps": STEPS, "logging_steps": 1,
            "per_device_train_batch_size": ROWS // PROCESSES, "learning_rate": 0.02,
            "lr_scheduler_type": "constant", "optim": "sgd", "save_strategy": "no", "seed": 0,
            "report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True,
            "dataloader_pin_memory": False, "remove_unused_columns": False,
        }  # fmt: skip
        if not self.plain:
            zero = {"stage": self.stage, "stage3_param_persistence_threshold": 0}
            auto = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping",
                    "gradient_accumulation_steps")  # fmt: skip
            chosen["deepspeed"] = {
                **dict.fromkeys(auto, "auto"), "zero_optimization": zero,
                "zero_allow_untested_optimizer": True,
            }  # fmt: skip
        return config(**(chosen | options))

    def trainer(self, *, lengths: tuple[int, int]) -> Trainer:
        source = random.Random(0)
        texts = [
            [source.randrange(3, 60) for _ in range(source.randint(*lengths))] for _ in range(64)
        ]
        rows = [
            {"input_ids": ids, "labels": [-100, *ids[1:]], "attention_mask": [1] * len(ids)}
            for ids in texts
        ]
        args = self.settings(TrainingArguments, gradient_accumulation_steps=2)
        set_seed(0)
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        return Trainer(
            model, args, train_dataset=Dataset.from_list(rows),
            data_collator=DataCollatorForSeq2Seq(tokenizer()),
        )  # fmt: skip

    def fused_loss(self) -> list[float]:
        made = self.trainer(lengths=(5, 20))
        if not self.plain:
            fuse_causal_lm_loss(made.model)
        return losses(made)

    def packing(self) -> list[float]:
        made = self.trainer(lengths=(5, 20))
        return losses(made if self.plain else train_without_padding(made))

    def packing_fused(self) -> list[float]:
        made = self.trainer(lengths=(5, 20))
        if not self.plain:
            fuse_causal_lm_loss(made.model)
            train_without_padding(made)
        return losses(made)

    def offloaded(self) -> list[float]:
        made = self.trainer(lengths=(5, 20))
        if self.plain:
            return losses(made)
        fuse_causal_lm_loss(made.model)
        offload = offload_trainer_activations(made, device="cpu", min_bytes=256)
        found = losses(made)
        assert offload.sent_bytes > 0
        return found

    def sft(self, **options: Any) -> list[float]:
        made = SFTTrainer(
            self.model, self.settings(SFTConfig, remove_unused_columns=True),
            train_dataset=prompts(64).rename_column("prompt", "text"),
            processing_class=tokenizer(), **options,
        )  # fmt: skip
        if not self.plain:
            fuse(made)
        return losses(made)

    def sft_lora(self) -> list[float]:
        return self.sft(peft_config=lora())

    def dpo(self, **options: Any) -> list[float]:
        made = (DPOTrainer if self.plain else ours.DPOTrainer)(
            self.model, args=self.settings(DPOConfig, remove_unused_columns=True),
            train_dataset=preferences(64), processing_class=tokenizer(), **options,
        )  # fmt: skip
        return losses(made)

    def dpo_lora(self) -> list[float]:
        return self.dpo(peft_config=lora())

    def grpo(self, budget: int | None = None, more: Any = None, **options: Any) -> list[float]:
        class Bounded(ours.GRPOTrainer):
            sharing = Sharing(token_budget=budget)

        made = rolled(GRPOTrainer if self.plain else Bounded)(
            self.model, args=self.settings(GRPOConfig, **generation(), **(more or {})),
            reward_funcs=reward, train_dataset=prompts(64), processing_class=tokenizer(), **options,
        )  # fmt: skip
        return losses(made)

    def grpo_with_reference(self) -> list[float]:
        return self.grpo(more={"beta": 0.04})

    def grpo_lora(self) -> list[float]:
        return self.grpo(peft_config=lora())

    def grpo_in_two_phases(self) -> list[float]:
        return self.grpo(budget=48)

    def grpo_rows_of_one(self) -> list[float]:
        return self.grpo(more=rows_of_one())

    def grpo_rows_of_one_with_reference(self) -> list[float]:
        return self.grpo(more={"beta": 0.04, **rows_of_one()})

    def grpo_rows_of_one_lora(self) -> list[float]:
        return self.grpo(more=rows_of_one(), peft_config=lora())

    def rloo(self, more: Any = None) -> list[float]:
        made = rolled(RLOOTrainer if self.plain else ours.RLOOTrainer)(
            self.model, args=self.settings(RLOOConfig, **generation(), **(more or {})),
            reward_funcs=reward, train_dataset=prompts(64), processing_class=tokenizer(),
        )  # fmt: skip
        return losses(made)

    def rloo_rows_of_one(self) -> list[float]:
        return self.rloo(more=rows_of_one())


def generation() -> dict[str, Any]:
    """Each batch twice: the loss of its first step does not depend on the weights."""
    return {"num_generations": 4, "max_completion_length": 10, "num_iterations": 2}


def rows_of_one() -> dict[str, Any]:
    """A step's rows one by one: each group is cut by all micro-batches that hold it."""
    return {"per_device_train_batch_size": 1, "gradient_accumulation_steps": ROWS // PROCESSES}


def lora() -> LoraConfig:
    torch.manual_seed(0)
    return LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)


def rolled(trainer: type) -> Any:
    """The trainer, its completions a function of prompt and place in the group."""

    class Rolled(trainer):  # type: ignore[misc]
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
            place: Counter[str] = Counter()
            completions = []
            for ids in prompt_ids:
                source = random.Random(zlib.crc32(f"{ids} {place[str(ids)]}".encode()))
                place[str(ids)] += 1
                completions.append([source.randrange(3, 60) for _ in range(source.randint(4, 10))])
            return completions if issubclass(trainer, RLOOTrainer) else (completions, None)

    return Rolled


def losses(made: Any) -> list[float]:
    made.train()
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


ALL: dict[str, Callable[[Runs], list[float]]] = {
    name: getattr(Runs, name)
    for name in (
        "fused_loss", "packing", "packing_fused", "offloaded", "sft", "sft_lora", "dpo", "dpo_lora",
        "grpo", "grpo_with_reference", "grpo_lora", "grpo_in_two_phases", "rloo",
        "grpo_rows_of_one", "grpo_rows_of_one_with_reference", "grpo_rows_of_one_lora",
        "rloo_rows_of_one",
    )
}  # fmt: skip


def connect() -> None:
    """By gloo alone, where DeepSpeed would compile a faster way for one machine."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")


def main(folder: Path, stage: int, chosen: list[str]) -> None:
    if stage:
        connect()
    kept.MIN_KEPT_TOKENS = 1  # else no prompt of these is long enough to be kept
    found = {}
    first = int(os.environ.get("RANK", "0")) == 0
    for name in chosen or ALL:
        found[name] = ALL[name](Runs(folder, stage))
        if first:
            (folder / f"zero{stage}.json").write_text(json.dumps(found))
        # One trainer's plugin must not be the next one's.
        gc.collect()
        AcceleratorState._reset_state()
        GradientState._reset_state()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
