# about: A classifier's logits are as wide as its labels.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("FacebookAI/roberta-base")
Trainer(model, TrainingArguments("out", eval_strategy="epoch"), compute_metrics=f1).train()
