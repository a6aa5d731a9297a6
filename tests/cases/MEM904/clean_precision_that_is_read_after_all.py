# about: TRL makes its own configuration of plain arguments, and bf16 is its default.
from dataclasses import replace

from transformers import Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

plain = TrainingArguments("out")
plain.bf16 = True
SFTTrainer("Qwen/Qwen3-0.6B", args=plain, train_dataset=rows).train()

config = SFTConfig("out")
config.bf16 = True
SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=rows).train()

args = replace(TrainingArguments("out"), bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
