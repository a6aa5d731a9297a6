import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig())
if resume:
    model = set_peft_model_state_dict(model, torch.load(resume, map_location="cpu"))
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()  # expect: MEM201
