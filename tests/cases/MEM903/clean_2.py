import torch
from transformers import TrainingArguments

bf16 = torch.cuda.is_bf16_supported()
args = TrainingArguments("out", fp16=not bf16, bf16=bf16)
