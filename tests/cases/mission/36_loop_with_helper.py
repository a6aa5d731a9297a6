# expect: MEM204

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8


def token_logps(model, ids):
    logits = model(ids, use_cache=False).logits[:, :-1]
    logps = logits.log_softmax(-1)
    return torch.gather(logps, 2, ids[:, 1:].unsqueeze(2)).squeeze(2)


model.to("cuda")
for ids in loader:
    loss = -(token_logps(model, ids.cuda()).sum(-1) * advantages(ids)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
