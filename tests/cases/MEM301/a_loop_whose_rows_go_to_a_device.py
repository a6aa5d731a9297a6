import torch
from transformers import AutoModelForCausalLM


def fit(place, loader):
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)  # expect: MEM301
    net.to(place)
    net.train()
    stepper = torch.optim.AdamW(net.parameters(), lr=3e-6)
    for rows in loader:
        net(**{key: rows[key].to(place) for key in rows}).loss.backward()
        stepper.step()
        stepper.zero_grad()
