from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
trainer = Trainer(model, TrainingArguments("out", bf16=True), train_dataset=dataset)
