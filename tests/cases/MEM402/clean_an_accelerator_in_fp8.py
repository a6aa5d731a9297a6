"""Accelerate converts what it prepares, and computes the rest in bfloat16."""

import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="fp8")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, rows)
for batch in loader:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
