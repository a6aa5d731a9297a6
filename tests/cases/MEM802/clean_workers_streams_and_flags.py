from datasets import load_dataset
from transformers import Trainer, TrainingArguments

rows = load_dataset("c4", split="train", streaming=True)
args = TrainingArguments("out", max_steps=100)
Trainer(model, args, train_dataset=rows).train()
