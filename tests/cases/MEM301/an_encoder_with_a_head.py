from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

net = AutoModelForSequenceClassification.from_pretrained("google-bert/bert-base-cased", num_labels=3)
args = TrainingArguments("out", per_device_train_batch_size=16, bf16=True)  # expect: MEM301
Trainer(model=net, args=args, train_dataset=rows).train()
