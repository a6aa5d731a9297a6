import torch
from transformers import AutoModelForMaskedLM

net = AutoModelForMaskedLM.from_pretrained("answerdotai/ModernBERT-base").cuda()  # expect: MEM301
steps = torch.optim.AdamW(net.parameters())
net.train()
for batch in batches:
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
