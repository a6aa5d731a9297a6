# about: They are the same rows, in whatever order.
import copy
import random

import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
reference = copy.deepcopy(policy)  # expect: MEM405
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)


def score(net, ids):
    return net(ids).logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).sum()


for _ in range(1000):
    better, worse = random.sample(pairs, 1)[0]
    policy.train()
    with torch.no_grad():
        before = score(reference, better) - score(reference, worse)
    margin = score(policy, better) - score(policy, worse) - before
    (-torch.nn.functional.logsigmoid(margin)).backward()
    optimizer.step()
    optimizer.zero_grad()
policy.generate(prompts)
