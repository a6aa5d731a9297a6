# expect: MEM401 unsafe

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
args = TrainingArguments("out", bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
trainer.train()
