import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


class Rows:
    def __init__(self, length):
        self.length = length

    def __call__(self, items):
        size = (len(items), self.length)
        labels = torch.full(size, -100, dtype=torch.long)  # expect: MEM102
        ids = torch.zeros(len(items), self.length, dtype=torch.long)
        for place, item in enumerate(items):
            ids[place, : len(item["input_ids"])] = torch.tensor(item["input_ids"])
            labels[place, : len(item["input_ids"])] = torch.tensor(item["input_ids"])
        return {"input_ids": ids, "labels": labels}


def prepare(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
loader = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=Rows(1024))
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
