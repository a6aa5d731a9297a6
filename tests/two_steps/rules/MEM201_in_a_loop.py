# data: text
"""A loop under accelerate, over an adapter, that reads the logits of its evaluation."""

import torch
from accelerate import Accelerator
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained(NAME)
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=8, lora_dropout=0.0))
rows = load_dataset("roneneldan/TinyStories", split="train").select(range(16))
rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64))
rows = rows.remove_columns("text")
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows, 4, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    model.train()
    for batch in loader:
        loss = model(**batch, use_cache=False).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"{loss.item():.7f}")
    model.eval()
    right = 0
    for batch in loader:
        with torch.no_grad():
            outputs = model(**batch)
        right += (outputs.logits[:, :-1].argmax(-1) == batch["labels"][:, 1:]).sum().item()
        print(f"{outputs.loss.item():.7f}")
    print(right)
