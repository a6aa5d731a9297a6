# expect: MEM401

import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
