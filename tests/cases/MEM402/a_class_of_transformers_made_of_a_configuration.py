import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_head=12, n_embd=768)).to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for ids in loader:
    outputs = model(ids.cuda(), labels=ids.cuda())  # expect: MEM402
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
