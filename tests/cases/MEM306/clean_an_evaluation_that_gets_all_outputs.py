# about: An evaluation that gets all outputs.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("gpt2", output_attentions=True)
Trainer(model, TrainingArguments("out"), compute_metrics=compute_metrics).train()
