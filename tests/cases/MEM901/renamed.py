from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="epoch")  # every epoch  # expect: MEM901
trainer = Trainer(model=model, args=args, tokenizer=tokenizer)  # expect: MEM901
