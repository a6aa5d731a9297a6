import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    get_linear_schedule_with_warmup,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")

dataset = load_dataset("wikitext", "wikitext-2-raw-v1", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=128),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset,
    batch_size=4,
    shuffle=True,
    collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = get_linear_schedule_with_warmup(optimizer, 1, len(loader))

model.train()
losses = []
for epoch in range(1):
    for batch in loader:
        batch = {k: v.to("cuda") for k, v in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) == 4:
            break
print(losses)
