# about: A hardware probe decides.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

bf16 = torch.cuda.is_bf16_supported()
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model=model, args=TrainingArguments("out", bf16=bf16, fp16=not bf16)).train()
