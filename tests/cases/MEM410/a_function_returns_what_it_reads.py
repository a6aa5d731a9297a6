import torch
from transformers import AutoModelForCausalLM


def fetch(place, device):
    state = torch.load(place, map_location=device, weights_only=True)  # expect: MEM410
    print(place, state["epoch"])
    return state


def work(net, batches):
    steps = torch.optim.AdamW(net.parameters())
    for batch in batches:
        net(**batch).loss.backward()
        steps.step()
        steps.zero_grad()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to(device)
state = fetch("last.pt", device)
net.load_state_dict(state["model"])
work(net, batches)
