import torch
from transformers import AutoModelForCausalLM


def fetch(place):
    state = torch.load(place, map_location="cuda")
    net.load_state_dict(state["model"])
    return net, state


def fetch_again(place):
    return torch.load(place, map_location="cuda")


def fetch_for_others(place):
    state = torch.load(place, map_location="cuda")
    net.load_state_dict(state["model"])
    return state


net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
fetch("last.pt")
net.load_state_dict(fetch_again("last.pt")["model"])
adopt(net, fetch_again("first.pt"))
steps = torch.optim.AdamW(net.parameters())
for batch in batches:
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
