import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda").eval()
optimizer = torch.optim.AdamW(scale.parameters(), lr=1e-4)
for rows in loader:
    with torch.no_grad():
        logits = model(rows).logits.float()
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), rows[:, 1:].reshape(-1))
    scale(loss).backward()
    optimizer.step()
    optimizer.zero_grad()
