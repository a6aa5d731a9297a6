# about: The loss is fused by the name that rewritten scripts have for it.
import torch
from memlint_runtime.compat import fuse_causal_lm_loss
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").cuda()
fuse_causal_lm_loss(model)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
