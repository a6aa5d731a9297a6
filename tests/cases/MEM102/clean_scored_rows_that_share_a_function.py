# about: One function makes tensors of both sets; a model only scores the padded one.
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


def make_tensor(data, kind):
    column = [item[kind] for item in data]
    return torch.tensor(column, dtype=torch.long)


def make_scored(texts):
    data = []
    for text in texts:
        words = tokenizer(text, padding="max_length", max_length=512, truncation=True)
        data.append({"input_ids": words["input_ids"]})
    return data


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
ids = make_tensor(torch.load("blocks.pt"), "input_ids").to("cuda")
scored = make_tensor(make_scored(load_dataset("imdb", split="test")["text"]), "input_ids")
scored = scored.to("cuda")
model.train()
for first in range(0, len(ids), 4):
    batch = ids[first : first + 4]
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    for first in range(0, len(scored), 4):
        batch = scored[first : first + 4]
        print(model(input_ids=batch, labels=batch).loss)
