# data: text
"""The model computes its loss, and the script reads its logits beside that."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME).to("cuda")
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for batch in loader:
    batch = batch.to("cuda")
    outputs = model(**batch, use_cache=False)
    right = outputs.logits[:, :-1].argmax(dim=-1) == batch["labels"][:, 1:]
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{outputs.loss.item():.7f} {right.float().mean().item():.7f}")

ids = tokenizer("Once", return_tensors="pt").input_ids.to("cuda")
model.eval()
print(model.generate(ids, max_new_tokens=8, do_sample=False).sum().item())
