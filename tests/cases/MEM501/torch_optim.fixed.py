import torch
from transformers import AutoModelForCausalLM
from bitsandbytes.optim import AdamW8bit

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32).cuda()
optimizer = AdamW8bit(model.parameters(), lr=1e-5)
model.train()
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
