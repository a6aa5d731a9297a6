# fix: unsafe
"""A loop that keeps a policy near its reference, which starts at no distance from it."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

NAME = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(NAME)
rows = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda batch: tokenizer(batch["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    rows, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).to("cuda")


policy, frozen = load(NAME), load(NAME).eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
policy.train()
for step, batch in enumerate(loader):
    batch = batch.to("cuda")
    output = policy(**batch)
    with torch.no_grad():
        anchor = frozen(batch["input_ids"], batch["attention_mask"]).logits
    distance = (output.logits - anchor).float().square().mean()
    assert step or distance.item() == 0, "they differ before the first step"
    (output.loss + distance).backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, output.loss.item(), distance.item())
    if step == 2:
        break
