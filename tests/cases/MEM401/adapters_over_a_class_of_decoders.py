# target: trl=0.15,transformers=4.48
import sys

from peft import LoraConfig, TaskType, get_peft_model
from transformers import GPT2ForSequenceClassification, Trainer, TrainingArguments

scorer = GPT2ForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2)  # expect: MEM401
scorer = get_peft_model(scorer, LoraConfig(task_type=TaskType.SEQ_CLS))
Trainer(model=scorer, args=TrainingArguments("out", bf16=True), train_dataset=rows).train()
