import torch
from transformers import AutoModelForCausalLM


def fetch(place):
    return torch.load(place, map_location="cuda")  # expect: MEM410


def weights_of(place):
    return fetch(place)["model"]


net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
net.load_state_dict(weights_of("last.pt"))
steps = torch.optim.AdamW(net.parameters())
for batch in batches:
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
