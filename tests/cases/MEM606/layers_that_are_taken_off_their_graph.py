# about: the prompt's pass is recorded, and what its cache holds is detached
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for prompt, answers in loader:
    kept = model(prompt.cuda(), use_cache=True).past_key_values
    for one in kept.layers:
        one.keys, one.values = one.keys.detach(), one.values.detach()
        one.values = one.values.detach()
    loss = model(answers.cuda(), past_key_values=kept, labels=answers.cuda()).loss  # expect: MEM606
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
