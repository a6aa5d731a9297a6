import copy

import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()  # expect: MEM301
reference = copy.deepcopy(policy)
reference.eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)


def score(net, ids):
    return net(ids, use_cache=False).logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1))


for ids in prompts:
    policy.train()
    with torch.no_grad():
        before = score(reference, ids)
    (before - score(policy, ids)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
