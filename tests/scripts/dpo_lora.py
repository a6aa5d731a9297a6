"""Preference tuning of an adapter, with a reference model that nobody needs."""

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

name = "Qwen/Qwen3-8B"
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
reference = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained(name)

args = DPOConfig(
    output_dir="qwen3-dpo",
    beta=0.1,
    max_length=2048,
    max_prompt_length=1024,
    gradient_checkpointing=False,
)
trainer = DPOTrainer(
    model,
    ref_model=reference,
    args=args,
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(target_modules="all-linear"),
)
trainer.train()
