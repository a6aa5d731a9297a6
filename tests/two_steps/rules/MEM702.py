import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset.select(range(24)),
    batch_size=4,
    collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
all_losses = []
for epoch in range(1):
    model.train()
    for batch in loader:
        outputs = model(**batch.to("cuda"), use_cache=False)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        all_losses.append(loss)
    mean = torch.stack(all_losses).mean()
    print(f"epoch {epoch}: mean loss {mean.item():.7f}, last {all_losses[-1].item():.7f}")
