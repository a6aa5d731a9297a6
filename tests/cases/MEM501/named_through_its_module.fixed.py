import torch
from transformers import AutoModelForCausalLM
from bitsandbytes.optim import AdamW8bit

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
optimizer = AdamW8bit(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
