import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=torch.bfloat16)
args = TrainingArguments("out", optim="adamw_bnb_8bit", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
