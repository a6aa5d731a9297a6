# about: The method call turns it on, whatever the configuration says.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()
Trainer(model, TrainingArguments("out", gradient_checkpointing=False)).train()
