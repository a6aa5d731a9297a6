# expect: MEM505

import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
optimizers = {p: torch.optim.AdamW([p], lr=1e-5) for p in model.parameters()}


def step_in_backward(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step_in_backward)
for index, batch in enumerate(loader):
    loss = model(**batch, use_cache=False).loss / 4
    loss.backward()
