# about: The optimizer steps under a condition: nobody knows after how many batches.
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = DataLoader(rows, batch_size=64, collate_fn=collate)
for batch in loader:
    model(**batch).loss.backward()
    if is_due(batch):
        optimizer.step()
        optimizer.zero_grad()
