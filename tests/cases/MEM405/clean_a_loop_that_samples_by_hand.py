# about: What it draws is new in every step.
import copy

import torch
from torch.distributions import Categorical
from transformers import AutoModelForCausalLM

actor = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
anchor = copy.deepcopy(actor)
optimizer = torch.optim.AdamW(actor.parameters(), lr=1e-6)
for ids in prompts:
    with torch.no_grad():
        for _ in range(32):
            last = actor(ids, use_cache=False, logits_to_keep=1).logits[:, -1]
            ids = torch.cat([ids, Categorical(logits=last).sample()[:, None]], dim=1)
        wanted = anchor(ids, use_cache=False).logits
    loss = reward(ids) * divergence(actor(ids, use_cache=False).logits, wanted)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
