import sys

from peft import LoraConfig, TaskType, get_peft_model
from transformers import GPT2ForSequenceClassification, Trainer, TrainingArguments
import torch

scorer = GPT2ForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2, torch_dtype=torch.bfloat16)
scorer = get_peft_model(scorer, LoraConfig(task_type=TaskType.SEQ_CLS))
Trainer(model=scorer, args=TrainingArguments("out", bf16=True), train_dataset=rows).train()
