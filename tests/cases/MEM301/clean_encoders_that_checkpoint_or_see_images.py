from transformers import AutoModelForImageClassification, AutoModelForQuestionAnswering
from transformers import Trainer, TrainingArguments

net = AutoModelForQuestionAnswering.from_pretrained("bert-base-cased")
net.gradient_checkpointing_enable()
Trainer(model=net, args=TrainingArguments("out"), train_dataset=rows).train()

eyes = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
Trainer(model=eyes, args=TrainingArguments("eyes"), train_dataset=pictures).train()
