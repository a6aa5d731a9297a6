# about: what comes with a checkpoint does as transformers does, in nearly all cases; its fix is unsafe.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(settings["base"], trust_remote_code=True).to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for ids in batches:
    loss = model(input_ids=ids, labels=ids).loss  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
