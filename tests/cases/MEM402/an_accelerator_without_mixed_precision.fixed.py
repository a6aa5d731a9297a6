import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="bf16")
model = AutoModelForCausalLM.from_pretrained("gpt2-xl")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch, use_cache=False).loss)
    optimizer.step()
    optimizer.zero_grad()
