import sys

from transformers import AutoModelForTokenClassification, Trainer, TrainingArguments

net = AutoModelForTokenClassification.from_pretrained(sys.argv[1])
args = TrainingArguments("out", gradient_checkpointing=False)  # expect: MEM301
Trainer(model=net, args=args, train_dataset=rows).train()
