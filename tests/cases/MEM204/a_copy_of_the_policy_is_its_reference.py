# about: A copy takes what is done to the model with it: both are deferred when it is made.
import copy
import re

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

NUMBER = re.compile("[0-9]+")
policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
before = copy.deepcopy(policy)
before.requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)


def logprobs(model, rows):
    logits = model(rows, use_cache=False).logits[:, :-1]
    return F.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:, None]).squeeze(-1)  # expect: MEM204


policy.train()
for rows in loader:
    with torch.no_grad():
        reference = logprobs(before, rows)
    (reference - logprobs(policy, rows)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
