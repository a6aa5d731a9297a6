import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def prepare(rows):
    words = tokenizer(rows["text"], padding="max_length", max_length=512, return_tensors="pt")
    words["labels"] = words["input_ids"].clone()
    return words


rows = load_dataset("imdb", split="train").map(prepare, batched=True).with_format("torch")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for batch in DataLoader(rows, batch_size=8):
    used = batch["attention_mask"].any(dim=0)
    batch = {name: batch[name][:, used].cuda() for name in ("input_ids", "attention_mask", "labels")}
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
