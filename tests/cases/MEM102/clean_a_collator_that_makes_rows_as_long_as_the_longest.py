import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def of_batch(items):
    longest = max(len(item["input_ids"]) for item in items)
    features = torch.zeros(len(items), 768, dtype=torch.float32)
    ids = torch.full((len(items), longest), 0, dtype=torch.long)
    for place, item in enumerate(items):
        ids[place, : len(item["input_ids"])] = torch.tensor(item["input_ids"])
        features[place, : len(item["seen"])] = torch.tensor(item["seen"])
    return {"input_ids": ids, "labels": ids, "features": features}


def prepare(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
loader = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=of_batch)
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
