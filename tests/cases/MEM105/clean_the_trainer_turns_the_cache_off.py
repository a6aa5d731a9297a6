# about: The trainer turns the cache off.
from transformers import (
    AutoModelForCausalLM, DataCollatorWithFlattening, Trainer, TrainingArguments
)

model = AutoModelForCausalLM.from_pretrained("q")
Trainer(model, TrainingArguments("out"), data_collator=DataCollatorWithFlattening()).train()
