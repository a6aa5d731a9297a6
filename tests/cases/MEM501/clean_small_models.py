# about: A gigabyte of states is no reason for another optimizer.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()
