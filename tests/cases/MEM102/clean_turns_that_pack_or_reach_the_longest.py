import json

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Packed(Dataset):
    def __init__(self, rows, tokenizer, limit):
        self.rows, self.tokenizer, self.limit = rows, tokenizer, limit

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = []
        while len(ids) < self.limit:
            ids += [self.tokenizer.eos_token_id]
            ids += self.tokenizer(self.rows[index]["text"]).input_ids
            index = (index + 1) % len(self.rows)
        return torch.tensor(ids[: self.limit])


class Shown(Packed):
    def __getitem__(self, index):
        ids = [self.tokenizer.pad_token_id]
        while len(ids) < self.limit:
            ids.append(self.rows[index]["ids"][len(ids)])
        return torch.tensor(ids)


def join(rows):
    longest = max(map(len, rows))
    for ids in rows:
        while len(ids) < longest:
            ids.append(tokenizer.pad_token_id)
    return torch.tensor(rows)


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto").cuda()
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
rows = json.load(open("rows.json"))
for ids in DataLoader(Packed(rows, tokenizer, 512), batch_size=4):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for ids in DataLoader(Shown(rows, tokenizer, 512), batch_size=4):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for ids in DataLoader(json.load(open("ids.json")), batch_size=4, collate_fn=join):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
