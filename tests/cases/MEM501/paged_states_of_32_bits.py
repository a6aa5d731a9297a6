# about: A paged 32-bit optimizer keeps float32 states, whatever the weights are.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=torch.bfloat16)
args = TrainingArguments("out", optim="paged_adamw_32bit", bf16=True)  # expect: MEM501
Trainer(model=model, args=args, train_dataset=dataset).train()
