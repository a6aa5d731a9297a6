# expect: MEM501

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
args = TrainingArguments("out", bf16=True, optim="adamw_torch")
Trainer(model=model, args=args, train_dataset=dataset).train()
