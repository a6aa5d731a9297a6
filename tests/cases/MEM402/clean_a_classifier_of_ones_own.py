# about: Nobody can tell in which precision this one is stored.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("me/bert-base-reviews", num_labels=3)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
