# about: Halved as a trainer is done.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def fit(rows):
    net = AutoModelForCausalLM.from_pretrained(
        "Qwen/Qwen3-1.7B",
        dtype=torch.float32,  # expect: MEM401
    )
    coach = Trainer(model=net, args=TrainingArguments("out", bf16=True), train_dataset=rows)
    coach.train()
    net.half().save_pretrained("out")
