# data: text
# fix: unsafe
"""Rows of one length are tensors already: each step cuts off what is padding in its whole batch."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = "Qwen/Qwen3-0.6B"


class Stories(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, place):
        text = self.texts[place]
        words = self.tokenizer(
            text, padding="max_length", max_length=128, truncation=True, return_tensors="pt"
        )
        ids = words["input_ids"].squeeze(0)
        mask = words["attention_mask"].squeeze(0)
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


torch.manual_seed(0)
teacher = AutoModelForCausalLM.from_pretrained(MODEL).cuda().eval()
model = AutoModelForCausalLM.from_pretrained(MODEL).cuda()
tokenizer = AutoTokenizer.from_pretrained(MODEL)
stories = Stories(load_dataset("imdb", split="train")["text"], tokenizer)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for number, batch in enumerate(DataLoader(stories, batch_size=2)):
    ids = batch["input_ids"].cuda()
    mask = batch["attention_mask"].cuda()
    labels = batch["labels"].cuda()
    with torch.no_grad():
        wanted = teacher(input_ids=ids, attention_mask=mask).logits
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = torch.nn.functional.mse_loss(logits.float(), wanted.float())
    loss += torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
    if number == 2:
        break

for batch in DataLoader(stories, batch_size=2):
    batch = {name: part.cuda() for name, part in batch.items()}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
    break

ids = torch.stack([stories[place]["input_ids"] for place in range(4)]).view(2, 2, 128).cuda()
mask = torch.stack([stories[place]["attention_mask"] for place in range(4)]).view(2, 2, 128).cuda()
for turn in range(2):
    logits = model(ids[turn], attention_mask=mask[turn]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[turn].view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
