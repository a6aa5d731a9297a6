import torch
from transformers import AutoModelForMaskedLM

model = AutoModelForMaskedLM.from_pretrained("my/diffusion", trust_remote_code=True).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for noised, clean, weight in loader:
    logits = model(noised.cuda()).logits
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, clean.cuda().unsqueeze(-1)).squeeze(-1)  # expect: MEM204
    (-weight.cuda() * chosen.sum(-1)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
