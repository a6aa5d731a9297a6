# about: A classifier has a handful of logits.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
args = TrainingArguments("out", per_device_train_batch_size=4, eval_strategy="epoch")
Trainer(model, args, train_dataset=train, eval_dataset=test).train()
