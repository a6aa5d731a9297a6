import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
args = TrainingArguments("out", optim="adafactor", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()  # expect: MEM406
