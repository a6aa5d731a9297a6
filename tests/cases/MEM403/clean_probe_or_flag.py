import torch
from transformers import Trainer, TrainingArguments

bf16 = torch.cuda.is_bf16_supported()
args = TrainingArguments("out", fp16=not bf16, bf16=bf16)
Trainer(model, args, train_dataset=rows).train()
