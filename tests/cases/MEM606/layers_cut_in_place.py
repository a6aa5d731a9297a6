# about: what the prompt's cache holds is detached where it is
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for prompt, answers in loader:
    kept = model(prompt.cuda(), use_cache=True).past_key_values
    for i in range(len(kept.layers)):
        kept.layers[i].keys.detach_()
    loss = model(answers.cuda(), past_key_values=kept, labels=answers.cuda()).loss  # expect: MEM606
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
