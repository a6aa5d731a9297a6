# expect: MEM703

import torch
from transformers import AutoModelForCausalLM

name = "Qwen/Qwen2.5-1.5B-Instruct"
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
ref_model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
ref_model.eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for ids in loader:
    logps = model(ids, use_cache=False).logits[:, :-1].log_softmax(-1)
    logps = logps.gather(-1, ids[:, 1:, None]).squeeze(-1)
    ref = ref_model(ids, use_cache=False).logits[:, :-1].log_softmax(-1)
    ref = ref.gather(-1, ids[:, 1:, None]).squeeze(-1)
    loss = -torch.nn.functional.logsigmoid((logps - ref).sum(-1)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
