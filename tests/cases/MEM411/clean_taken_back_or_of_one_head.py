from dataclasses import replace

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

adapter = LoraConfig(r=16, modules_to_save=["lm_head"])
adapter.modules_to_save = None
other = replace(TrainingArguments("out"), modules_to_save=["lm_head"])
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), adapter)
Trainer(model, other, train_dataset=rows).train()
