# about: It has no twin of another model, and no entry a token is picked.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for ids in loader:
    shares = torch.log_softmax(model(ids).logits, dim=-1)
    spread = -(shares.exp() * shares).sum(-1)
    spread.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
