# fix: unsafe
import os

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


def save(model, optimizer, best, path):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best}
    torch.save(state, path)


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
best = torch.tensor(float("inf"))
save(model, optimizer, best, "best.pt")
if os.path.isfile("best.pt"):
    state = torch.load("best.pt", map_location="cuda" if torch.cuda.is_available() else "cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    best = state["best"]
for step, batch in enumerate(loader):
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    best = torch.minimum(best, loss.detach())
    if step == 3:
        break
print("best", best.item())
