import torch
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
Trainer(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()
