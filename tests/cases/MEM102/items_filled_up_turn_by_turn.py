import json

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Texts(Dataset):
    def __init__(self, rows, tokenizer, limit):
        self.rows, self.tokenizer, self.limit = rows, tokenizer, limit

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = self.tokenizer(self.rows[index]["text"]).input_ids[: self.limit]
        while len(ids) < self.limit:
            ids += [self.tokenizer.pad_token_id]  # expect: MEM102
        return torch.tensor(ids)


class Masked(Texts):
    def __getitem__(self, index):
        ids = self.tokenizer(self.rows[index]["text"]).input_ids[: self.limit]
        mask = [1] * len(ids)
        while len(ids) < self.limit:
            mask.append(0)  # expect: MEM102
            ids.append(self.tokenizer.pad_token_id)
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


class Ready(Texts):
    def __init__(self, rows, tokenizer):
        super().__init__(rows, tokenizer, 512)
        self.ready = []
        for row in rows:
            ids = tokenizer(row["text"]).input_ids[:512]
            while len(ids) < 512:
                ids = ids + [0]  # expect: MEM102
            self.ready.append(torch.tensor(ids))

    def __getitem__(self, index):
        return self.ready[index]


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto").cuda()
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
rows = json.load(open("rows.json"))
for ids in DataLoader(Texts(rows, tokenizer, 512), batch_size=4):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for batch in DataLoader(Masked(rows, tokenizer, 512), batch_size=4):
    loss = model(**batch, labels=batch["input_ids"], use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for ids in DataLoader(Ready(rows, tokenizer), batch_size=4):
    loss = model(input_ids=ids.cuda(), labels=ids.cuda(), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
