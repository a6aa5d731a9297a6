# target: trl=0.15,transformers=4.48
import sys

from transformers import BertForSequenceClassification, Trainer, TrainingArguments

scorer = BertForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2)
Trainer(model=scorer, args=TrainingArguments("out", bf16=True), train_dataset=rows).train()
