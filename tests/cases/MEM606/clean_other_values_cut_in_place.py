import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for prompt, answers in loader:
    first = model(prompt.cuda(), use_cache=True)
    scores = first.logits.detach_()
    kept = first.past_key_values
    loss = model(answers.cuda(), past_key_values=kept, labels=answers.cuda()).loss
    kept.layers[0].keys.detach_()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
