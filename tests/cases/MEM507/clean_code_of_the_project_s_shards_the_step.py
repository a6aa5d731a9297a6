# about: What the project's code gives back may step a share of the weights in each process.
import torch
from transformers import AutoModelForCausalLM

from parallel import Shares, world


def shared(model, optimizer):
    if world() > 1:
        optimizer = Shares(optimizer)
    return model, optimizer


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer = shared(model, optimizer=optimizer)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
