import torch
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
model.train()
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
