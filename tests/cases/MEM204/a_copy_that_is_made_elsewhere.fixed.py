import copy

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)


def frozen(model):
    kept = copy.deepcopy(model)
    kept.requires_grad_(False)
    return kept


def logprobs(model, rows):
    with defer_logits(model):
        logits = model(rows, use_cache=False).logits[:, :-1]
    return F.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:, None]).squeeze(-1)


before = frozen(policy)
policy.train()
for rows in loader:
    with torch.no_grad():
        reference = logprobs(before, rows)
    (reference - logprobs(policy, rows)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
