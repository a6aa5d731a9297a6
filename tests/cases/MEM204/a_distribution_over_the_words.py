import torch
from torch.distributions import Categorical
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids, gains in loader:
    scores = model(ids).logits[:, :-1]
    chosen = Categorical(logits=scores).log_prob(ids[:, 1:])  # expect: MEM204
    (-(chosen * gains).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
