# about: Generation leaves blocks of other shapes.
import torch

for prompts in loader:
    completions = policy.generate(**prompts)
    torch.cuda.empty_cache()
    loss = score(policy(completions).logits)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
