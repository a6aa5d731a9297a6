# about: The runtime computes the loss of this loop.
import torch
from memlint_runtime import fuse_causal_lm_loss
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
