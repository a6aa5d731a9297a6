# about: A T4 has no bf16.
from transformers import Trainer, TrainingArguments

# Runs on a T4.
args = TrainingArguments("out", fp16=True)
Trainer(model, args, train_dataset=rows).train()
