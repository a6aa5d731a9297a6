from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
args = TrainingArguments("out", per_device_train_batch_size=32, bf16=True)
Trainer(model, args, train_dataset=rows).train()
