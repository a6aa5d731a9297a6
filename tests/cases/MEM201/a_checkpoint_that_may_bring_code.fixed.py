import torch
from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained(settings["base"], trust_remote_code=True).to("cuda")
fuse_causal_lm_loss(model, fuse_evaluation=True)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for ids in batches:
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
