# about: Both are in the optimizer.
import itertools

import torch
from transformers import AutoModelForCausalLM

actor = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
critic = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(itertools.chain(actor.parameters(), critic.parameters()))
for ids in loader:
    loss = combine(actor(ids, use_cache=False).logits, critic(ids, use_cache=False).logits)
    loss.backward()
    optimizer.step()
