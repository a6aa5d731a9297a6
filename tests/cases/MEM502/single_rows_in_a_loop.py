import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=torch.bfloat16)
loader = DataLoader(dataset, batch_size=1, shuffle=True)  # expect: MEM502
optimizer = torch.optim.AdamW(model.parameters())
for step, batch in enumerate(loader):
    loss = model(**batch).loss / 32
    loss.backward()
    if (step + 1) % 32 == 0:
        optimizer.step()
        optimizer.zero_grad()
