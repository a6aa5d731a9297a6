import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="float32").cuda()
named = {name: weight for name, weight in model.named_parameters()}
named = {name: weight for name, weight in named.items() if weight.requires_grad}
matrices = [weight for _, weight in named.items() if weight.dim() >= 2]
vectors = [weight for _, weight in named.items() if weight.dim() < 2]
optimizer = torch.optim.AdamW(  # expect: MEM501
    [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
)
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
