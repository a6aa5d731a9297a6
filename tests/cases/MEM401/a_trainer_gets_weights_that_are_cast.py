# about: Weights that a method casts to float32 before a trainer gets them.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def fetch(name):
    net = AutoModelForCausalLM.from_pretrained(name, dtype="auto")
    return net.to("cuda", torch.float32)  # expect: MEM401


args = TrainingArguments("out", bf16=True)
Trainer(fetch("Qwen/Qwen3-8B"), args=args, train_dataset=rows).train()
