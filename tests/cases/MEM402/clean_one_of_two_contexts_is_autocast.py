from contextlib import nullcontext

import torch
from transformers import GPT2Config, GPT2LMHeadModel

narrow = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
context = nullcontext() if device == "cpu" else torch.amp.autocast(device_type=device, dtype=narrow)
model = GPT2LMHeadModel(GPT2Config()).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for ids in loader:
    with context:
        outputs = model(ids.cuda(), labels=ids.cuda())
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
