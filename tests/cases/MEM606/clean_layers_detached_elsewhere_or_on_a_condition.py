import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def frozen(cache):
    for one in cache.layers:
        one.keys = one.keys.detach()
    return cache


for prompt, answers in loader:
    kept = model(prompt.cuda(), use_cache=True).past_key_values
    for one in kept.layers:
        if FROZEN:
            one.keys = one.keys.detach()
    loss = model(answers.cuda(), past_key_values=kept, labels=answers.cuda()).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
