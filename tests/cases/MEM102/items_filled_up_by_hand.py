import json

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


class Talks(Dataset):
    def __init__(self, path, tokenizer, limit):
        self.data = json.load(open(path))
        self.tokenizer = tokenizer
        self.limit = limit

    def __len__(self):
        return len(self.data)

    def row(self, example):
        ids = self.tokenizer.encode(example["text"])[: self.limit]
        labels = list(ids)
        ids += [self.tokenizer.pad_token_id] * (self.limit - len(ids))  # expect: MEM102
        labels += [-100] * (self.limit - len(labels))
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}

    def __getitem__(self, index):
        return self.row(self.data[index])


class Turns(Dataset):
    def __init__(self, rows, tokenizer):
        self.rows = rows
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = self.tokenizer(self.rows[index]["text"]).input_ids[:1024]
        missing = [self.tokenizer.pad_token_id] * (1024 - len(ids))  # expect: MEM102
        return {"input_ids": torch.tensor(ids + missing)}


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto").cuda()
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
args = TrainingArguments("out")
Trainer(model, args, train_dataset=Talks("talks.json", tokenizer, 512)).train()

optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for batch in DataLoader(Turns(json.load(open("turns.json")), tokenizer), batch_size=4):
    ids = batch["input_ids"].cuda()
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
