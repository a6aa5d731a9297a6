import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for ids, gain in loader:
    scores = model(ids).logits[:, :-1]
    picked = scores.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    logprobs = picked - torch.logsumexp(scores, dim=-1)  # expect: MEM204
    (-(logprobs * gain).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
