import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.float32).cuda()
rows = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda row: tokenizer(row["text"], truncation=True, max_length=64), remove_columns=["text"]
)
loader = DataLoader(rows, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
model.train()
for step, batch in enumerate(loader):
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step}: {loss.item():.6f}")
    if step == 4:
        break
