from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", eval_strategy="epoch")  # every epoch
trainer = Trainer(model=model, args=args, processing_class=tokenizer)
