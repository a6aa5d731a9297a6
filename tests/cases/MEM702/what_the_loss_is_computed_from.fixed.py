import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(policy.parameters())
drifts = []
for ids, before, gains in rollouts:
    logits = policy(ids).logits[:, :-1]
    logps = logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -((logps - before).exp() * gains).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    drifts.append((before - logps).mean().detach())
print(torch.stack(drifts).mean())
