import copy
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16)
model = model.cuda()
model.train()
best = float('inf')
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, kept = loss.item(), copy.deepcopy(model.state_dict())  # expect: MEM414
    optimizer.zero_grad()
