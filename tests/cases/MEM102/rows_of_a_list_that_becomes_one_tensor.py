import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
rows = []
for row in load_dataset("imdb", split="train"):
    words = tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)  # expect: MEM102
    rows.append(words["input_ids"])
ids = torch.tensor(rows).to("cuda")
model.train()
for first in range(0, len(ids), 4):
    batch = ids[first : first + 4]
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
