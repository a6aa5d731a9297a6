import torch
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments

torch.backends.cuda.matmul.allow_tf32 = True
model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
