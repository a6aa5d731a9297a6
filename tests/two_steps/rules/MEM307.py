import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def collate(rows):
    return tokenizer(
        [row["text"] for row in rows],
        return_tensors="pt",
        padding=True,
        truncation=True,
        max_length=128,
    )


def train(model, loader, optimizer, accumulation=2):
    losses = []
    model.train()
    for step, batch in enumerate(loader):
        ids = batch["input_ids"].to(device)
        mask = batch["attention_mask"].to(device)
        outputs = model(input_ids=ids, attention_mask=mask, use_cache=False)
        logits = outputs.logits[:, :-1]
        targets = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.size(-1)), targets.reshape(-1)
        )
        (loss / accumulation).backward()
        if (step + 1) % accumulation == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if step == 7:
            break
    return losses


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to(device)
loader = DataLoader(load_dataset("roneneldan/TinyStories", split="train"), 4, collate_fn=collate)
print(train(model, loader, torch.optim.AdamW(model.parameters(), lr=1e-3)))
