# data: text
# fix: unsafe
"""The loss is computed beside the model, in float32."""

import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForCausalLM.from_pretrained(NAME, dtype=torch.float32).to("cuda")
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows.remove_columns("text"), 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for batch in loader:
    batch = batch.to("cuda")
    logits = model(batch["input_ids"], use_cache=False).logits
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.7f}")
