import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
model.train()
model = DDP(model, gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
