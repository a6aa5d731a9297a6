import pandas
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)


def fill(texts):
    frame = pandas.DataFrame({"text": texts})
    rows = words(texts, padding="max_length", max_length=512)
    frame["input_ids"] = rows["input_ids"]
    frame["attention_mask"] = rows["attention_mask"]
    return Dataset.from_pandas(frame).with_format("torch")


def loaders(first, second):
    return {"one": DataLoader(fill(first), 8, shuffle=True), "two": DataLoader(fill(second), 8)}


made = loaders(open("one.txt").readlines(), open("two.txt").readlines())
for batch in made["one"]:
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
    batch.update(cut)
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
