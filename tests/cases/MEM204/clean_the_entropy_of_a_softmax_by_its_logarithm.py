# about: An entropy has no target, and the logarithm of a position's shares is small.
import torch
from transformers import AutoModelForCausalLM

actor = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
for batch, gain in loader:
    shares = torch.softmax(actor(**batch, use_cache=False).logits, dim=-1)
    entropy = -(shares * torch.log(shares + 1e-9)).sum(dim=-1)
    (entropy * gain).mean().backward()
    optimizer.step()
for batch, word in loader:
    shares = torch.softmax(actor(**batch, use_cache=False).logits[:, -1], dim=-1)
    torch.log(shares).gather(-1, word.unsqueeze(-1)).mean().backward()
    optimizer.step()
