# about: Sampling leaves blocks of other shapes.
import torch


def sample(prompts):
    rows = policy.generate(**prompts)
    torch.cuda.empty_cache()
    return rows


for prompts in loader:
    rows = sample(prompts)
    policy(rows, labels=rows).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
