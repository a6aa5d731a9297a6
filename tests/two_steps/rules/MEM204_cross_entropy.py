# data: text
"""Cross entropies over float32 copies of the logits, with the share of right words beside them."""

import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME).to("cuda")
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss(ignore_index=-100)


def loss_of(batch):
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
    shifted = logits[..., :-1, :].contiguous().float()
    labels = batch["labels"][..., 1:].contiguous()
    right = (shifted.argmax(-1) == labels).float().mean()
    return criterion(shifted.view(-1, shifted.size(-1)), labels.view(-1)), right


model.train()
for batch in loader:
    loss, right = loss_of(batch.to("cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.7f} {right.item():.7f}")

model.eval()
for batch in loader:
    with torch.no_grad():
        batch = batch.to("cuda")
        logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        losses = F.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]),
            batch["labels"][:, 1:].reshape(-1),
            reduction="none",
        )
        print(f"{losses.sum().item():.5f}")
