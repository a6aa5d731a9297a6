# about: Of each token more than a number would have to be kept.
import copy

import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
reference = copy.deepcopy(policy)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for batch in loader:
    policy.train()
    with torch.no_grad():
        before = reference(batch["ids"]).logits.log_softmax(-1)
    now = policy(batch["ids"]).logits.log_softmax(-1)
    drift = torch.nn.functional.kl_div(now, before, log_target=True)
    (drift + loss_of(now, batch)).backward()
    optimizer.step()
    optimizer.zero_grad()
