import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.float32).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)  # expect: MEM507
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
