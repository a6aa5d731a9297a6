import torch
from transformers import AutoModelForMaskedLM

net = AutoModelForMaskedLM.from_pretrained("answerdotai/ModernBERT-base").cuda()
net.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
steps = torch.optim.AdamW(net.parameters())
net.train()
for batch in batches:
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
