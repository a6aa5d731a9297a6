"""Preference training as it was written in 2023: plain arguments, all else on the trainer."""

import os

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer

dataset = load_dataset("json", data_files=os.environ["DATA"], split="train")
dataset = dataset.remove_columns(["text", "completion"])
model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"])
tokenizer = AutoTokenizer.from_pretrained(os.environ["MODEL"])

args = TrainingArguments(
    output_dir=os.environ["OUTPUT"],
    per_device_train_batch_size=2,
    learning_rate=5e-5,
    evaluation_strategy="no",
    warmup_ratio=0.1,
    remove_unused_columns=False,
    max_steps=3,
    use_mps_device=False,
    no_cuda=True,
    report_to="none",
)

trainer = DPOTrainer(
    model,
    ref_model=None,
    args=args,
    beta=0.2,
    train_dataset=dataset,
    tokenizer=tokenizer,
    peft_config=LoraConfig(r=4, task_type="CAUSAL_LM"),
    max_length=48,
    max_prompt_length=8,
)
trainer.train()
