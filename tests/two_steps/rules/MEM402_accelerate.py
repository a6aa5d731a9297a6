# data: text
# fix: unsafe
"""Accelerate decides the precision of its passes."""

import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
accelerator = Accelerator(mixed_precision="no")
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME, dtype=torch.float32)
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model.train()
for batch in loader:
    loss = model(**batch, use_cache=False).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.7f}")
