import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="float32").cuda()
first, second, third = [], [], []
for name, weight in model.named_parameters():
    if "layers.35" in name:
        first.append(weight)
    elif "norm" in name:
        second.append(weight)
for name, weight in model.named_parameters():
    if weight.dim() > 1:
        third.append(weight)
    else:
        first.append(weight)
optimizer = torch.optim.AdamW([{"params": first}, {"params": second}])
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
