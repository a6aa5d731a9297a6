from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
args = TrainingArguments("out", bf16=True, optim="adamw_torch")
Trainer(model=model, args=args, train_dataset=dataset).train()
