import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
rows = load_dataset("org/rows", split="train").map(lambda row: tokenizer(row["text"], truncation=True))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(rows, batch_size=4, collate_fn=collator)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.3B", dtype=torch.bfloat16).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
