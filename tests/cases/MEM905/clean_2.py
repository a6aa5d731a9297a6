from transformers import Trainer, TrainingArguments

trainer = Trainer(model, args=TrainingArguments("out"), train_dataset=dataset)
