from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

net = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=3)
for weight in net.base_model.parameters():
    weight.requires_grad = False
args = TrainingArguments("out", per_device_train_batch_size=16, bf16=True)
Trainer(model=net, args=args, train_dataset=rows).train()
