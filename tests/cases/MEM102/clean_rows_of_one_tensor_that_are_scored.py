# about: A model only scores the rows that are padded.
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
rows = []
for row in load_dataset("imdb", split="test"):
    words = tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)
    rows.append(words["input_ids"])
ids = torch.tensor(rows).to("cuda")
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    for i in range(0, len(ids), 4):
        print(model(input_ids=ids[i : i + 4], labels=ids[i : i + 4]).loss)
