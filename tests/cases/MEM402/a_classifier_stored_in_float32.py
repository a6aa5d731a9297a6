# about: The checkpoint is stored in float32, and loaded as it is stored.
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
args = TrainingArguments("out", per_device_train_batch_size=32)  # expect: MEM402
Trainer(model, args, train_dataset=rows).train()
