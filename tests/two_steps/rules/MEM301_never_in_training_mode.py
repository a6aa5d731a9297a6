# data: text
# fix: unsafe
"""Nothing puts the model into training mode, and it generates between the steps."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME).to("cuda")
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(8))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for batch in loader:
    loss = model(**batch.to("cuda"), use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.7f}")
    ids = tokenizer("Once", return_tensors="pt").input_ids.to("cuda")
    model.generate(ids, max_new_tokens=4)
