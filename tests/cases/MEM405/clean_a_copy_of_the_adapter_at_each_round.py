# about: The copy has the adapter as it was when the round began: no base gives its scores.
import copy

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
policy = get_peft_model(policy, LoraConfig(r=16))
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)


def scores(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


for prompts in loader:
    old = copy.deepcopy(policy)
    for weight in old.parameters():
        weight.requires_grad = False
    rows = policy.generate(prompts)
    with torch.no_grad():
        before = scores(old, rows)
    for _ in range(2):
        loss = -(scores(policy, rows) - before).exp().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
