from transformers import Trainer, TrainingArguments

args = TrainingArguments("out")
args.fp16 = True
setattr(args, "bf16", True)
Trainer(model=model, args=args, train_dataset=dataset).train()
