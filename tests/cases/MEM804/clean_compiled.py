import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = torch.compile(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"))
Trainer(model, TrainingArguments("out", num_train_epochs=5), train_dataset=rows).train()
