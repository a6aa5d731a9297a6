# about: cut behind the tokenizer or before it, written out, and prompts of a generation
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("EleutherAI/pythia-1b")
model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-1b").cuda()
optimizer = torch.optim.AdamW(model.parameters())


def cut(rows):
    batch = words(rows, padding=True, return_tensors="pt")
    return {name: value[:, :1024] for name, value in batch.items()}


def short(rows):
    return words([row[:2000] for row in rows], padding=True, return_tensors="pt")


for first, second in zip(
    DataLoader(rows, batch_size=8, collate_fn=cut), DataLoader(rows, batch_size=8, collate_fn=short)
):
    loss = model(**first, labels=first["input_ids"]).loss
    (loss + model(**second, labels=second["input_ids"]).loss).backward()
    optimizer.step()
    optimizer.zero_grad()

facts = ["The capital of France is Paris.", "Water boils at 100 degrees."]
for epoch in range(100):
    batch = words(facts, padding=True, return_tensors="pt").to("cuda")
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for texts in loader:
    ids = words(texts, padding=True, return_tensors="pt").input_ids[:, :512].cuda()
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for prompts in loader:
    asked = words(prompts, padding=True, return_tensors="pt").to("cuda")
    ids = model.generate(**asked, max_new_tokens=64)
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
