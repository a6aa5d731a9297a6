import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def fit(rows):
    net = AutoModelForCausalLM.from_pretrained(
        "Qwen/Qwen3-1.7B",
        dtype=torch.bfloat16,
    )
    coach = Trainer(model=net, args=TrainingArguments("out", bf16=True), train_dataset=rows)
    coach.train()
    net.half().save_pretrained("out")
