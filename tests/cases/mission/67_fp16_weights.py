# expect: MEM903

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float16)
args = TrainingArguments("out", fp16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
