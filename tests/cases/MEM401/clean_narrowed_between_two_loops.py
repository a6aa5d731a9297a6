# about: Narrowed between two loops.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
model.float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in warmup:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.bfloat16()
for batch in loader:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
