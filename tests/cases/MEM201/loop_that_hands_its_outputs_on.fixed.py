import torch
from records import keep
from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
fuse_causal_lm_loss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    outputs = model(**batch, use_cache=False)
    keep(outputs)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
