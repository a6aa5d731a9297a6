# about: Scaled losses want float32 weights.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

# Runs on a T4.
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", dtype=torch.float32)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
