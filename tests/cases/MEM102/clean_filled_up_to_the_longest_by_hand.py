import json

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Texts(Dataset):
    def __init__(self, rows, tokenizer, limit):
        self.rows = rows
        self.tokenizer = tokenizer
        self.limit = limit

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.tokenizer(self.rows[index]["text"]).input_ids[:1024]


class HeldOut(Texts):
    def __getitem__(self, index):
        ids = self.tokenizer(self.rows[index]["text"]).input_ids[:1024]
        return torch.tensor(ids + [self.tokenizer.pad_token_id] * (1024 - len(ids)))


class Classes(Texts):
    def __getitem__(self, index):
        ids = self.tokenizer(self.rows[index]["label"]).input_ids[:8]
        return torch.tensor(ids + [self.tokenizer.pad_token_id] * (8 - len(ids)))


def join(rows):
    longest = max(len(one) for one in rows)
    return torch.tensor([one + [tokenizer.pad_token_id] * (longest - len(one)) for one in rows])


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto").cuda()
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
rows = json.load(open("rows.json"))
for ids in DataLoader(Texts(rows, tokenizer, 512), batch_size=4, collate_fn=join):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for ids in DataLoader(Classes(rows, tokenizer, 512), batch_size=4):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for ids in DataLoader(HeldOut(rows, tokenizer, 512), batch_size=4):
        print(model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss)
