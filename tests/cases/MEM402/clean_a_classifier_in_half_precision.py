# about: Its weights are cast at the load.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", dtype="bfloat16")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
