# target: transformers=4.46
# about: Models for which Liger has no kernels, or to which these do not come, or whose logits are read.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows).train()  # expect: MEM201

base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM"))
Trainer(model=adapted, args=TrainingArguments("out"), train_dataset=rows).train()  # expect: MEM201

other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
Trainer(model=other, args=TrainingArguments("out"), train_dataset=rows).train()  # expect: MEM201
print(other(**batch, labels=batch["input_ids"]).logits.argmax(-1))
