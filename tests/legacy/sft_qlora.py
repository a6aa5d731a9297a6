"""Supervised fine-tuning as it was written in 2023: all on the trainer, QLoRA by keywords."""

import os

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import SFTTrainer

MODEL = os.environ["MODEL"]
QUANTIZED = torch.cuda.is_available()
MAX_LENGTH = 32

dataset = load_dataset("json", data_files=os.environ["DATA"], split="train")

model = AutoModelForCausalLM.from_pretrained(
    MODEL,
    load_in_4bit=QUANTIZED,  # fits a 24 GB card
    torch_dtype=torch.float32,
    low_cpu_mem_usage=True,
    use_auth_token=False,
)
tokenizer = AutoTokenizer.from_pretrained(MODEL)

training_arguments = TrainingArguments(
    output_dir=os.environ["OUTPUT"],
    overwrite_output_dir=True,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    optim="adamw_hf",
    learning_rate=2e-4,
    evaluation_strategy="steps",
    eval_steps=2,
    warmup_ratio=0.3,
    group_by_length=True,
    gradient_checkpointing=True,
    max_steps=3,
    no_cuda=not QUANTIZED,
    report_to="none",
)

trainer = SFTTrainer(
    model=model,
    train_dataset=dataset,
    eval_dataset=dataset,
    peft_config=LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM"),
    dataset_text_field="text",
    max_seq_length=MAX_LENGTH,
    tokenizer=tokenizer,
    args=training_arguments,
    packing=True,
)
trainer.train()
