"""Pretraining that goes on from its last checkpoint."""

import os

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

CHECKPOINT = "last.pt"
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)


def train(steps):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done = 0
    if os.path.exists(CHECKPOINT):
        checkpoint = torch.load(CHECKPOINT)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        done = checkpoint["step"]
    model.train()
    for step, batch in enumerate(loader, start=1):
        if step <= done:
            continue
        loss = model(**batch.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
        if step == steps:
            break
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": steps},
        CHECKPOINT,
    )


train(2)
train(4)
